package procs

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// interval is the time between two beats of a program, or the duration of a sync.
type interval struct{ from, to int64 }

// intervals returns the intervals between beats.
func intervals(beats []int64) []interval {
	var found []interval
	for i := 1; i < len(beats); i++ {
		found = append(found, interval{beats[i-1], beats[i]})
	}
	return found
}

// longest returns the longest interval that overlaps the given time range.
func longest(all []interval, from, to int64) (most time.Duration) {
	for _, s := range all {
		if s.to >= from && s.from <= to {
			most = max(most, time.Duration(s.to-s.from))
		}
	}
	return most
}

// checkKillTime fails if SIGKILL came more than half a second after the end of the grace, and
// neither the machine nor its disk was late. From the kubelet's timer to the signal some ten
// threads of five processes wake each other. Each may be as late as a recorded beat was. Before a
// signal, the runtime and the shim also sync a record to disk.
func (s *subject) checkKillTime(t *testing.T, late time.Duration, m *machine) {
	t.Helper()
	const most, wakes, syncs = time.Second / 2, 10, 3
	by, slowest := m.maxDelay(s.deleted, s.killed), m.maxSync(s.killed-late.Nanoseconds(), s.killed)
	if late > most+wakes*by+syncs*slowest {
		t.Errorf("%s was killed %v after its grace, where the machine was late by %v and its disk by %v at most: want at most %v more",
			s.name, late, by, slowest, most)
	}
}

// machine measures how late the machine and its disk are while a test runs.
type machine struct {
	mu sync.Mutex
	// beats are the test's own; silences come from other programs.
	beats    []int64
	silences []interval
	// syncs are the durations of repeated file syncs.
	syncs []interval
}

// watchMachine records beats and file syncs until the test ends.
func watchMachine(t *testing.T) *machine {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "synced"))
	if err != nil {
		t.Fatal(err)
	}
	m, stop := &machine{}, make(chan struct{})
	every := func(d time.Duration, do func()) {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				do()
			}
		}
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		every(beat, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.beats = append(m.beats, monotonic())
		})
	})
	watching.Go(func() {
		defer file.Close()
		every(2*beat, func() { m.sync(t, file) })
	})
	t.Cleanup(func() { close(stop); watching.Wait() })
	return m
}

func (m *machine) sync(t *testing.T, file *os.File) {
	t.Helper()
	began := monotonic()
	if _, err := file.WriteAt([]byte("text"), 0); err != nil || file.Sync() != nil {
		t.Error("the disk takes nothing")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncs = append(m.syncs, interval{began, monotonic()})
}

// addBeats adds the beats of a program.
func (m *machine) addBeats(beats []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silences = append(m.silences, intervals(beats)...)
}

// maxDelay returns the longest delay of a beat within a time range. A runtime on the same machine
// may be as late.
func (m *machine) maxDelay(from, to int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, longest(slices.Concat(intervals(m.beats), m.silences), from, to)-beat)
}

// maxSync returns the longest sync within a time range.
func (m *machine) maxSync(from, to int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return longest(m.syncs, from, to)
}
