package procs

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// silence is the time between two beats of a program, or that a sync took.
type silence struct{ from, to int64 }

// silences are those between the instants of a program's beats.
func silences(beats []int64) []silence {
	var found []silence
	for i := 1; i < len(beats); i++ {
		found = append(found, silence{beats[i-1], beats[i]})
	}
	return found
}

// longest is the longest of those that touch the time between two instants.
func longest(all []silence, from, to int64) (most time.Duration) {
	for _, s := range all {
		if s.to >= from && s.from <= to {
			most = max(most, time.Duration(s.to-s.from))
		}
	}
	return most
}

// punctual fails when SIGKILL came more than half a second after the end of the grace, and
// neither the machine nor its disk was to blame. From the kubelet's timer to the signal some ten
// threads of five processes wake each other, and each may be as late as a witness was; before
// a signal the runtime and the shim put on disk that they send it.
func (s *subject) punctual(t *testing.T, late time.Duration, m *machine) {
	t.Helper()
	const most, wakes, syncs = time.Second / 2, 10, 3
	by, slowest := m.late(s.deleted, s.killed), m.slowest(s.killed-late.Nanoseconds(), s.killed)
	if late > most+wakes*by+syncs*slowest {
		t.Errorf("%s was killed %v after its grace, where the machine was late by %v and its disk by %v at most: want at most %v more",
			s.name, late, by, slowest, most)
	}
}

// machine is how late the machine and its disk were while a test ran.
type machine struct {
	mu sync.Mutex
	// beats are those of the test itself, and silences what others have told.
	beats    []int64
	silences []silence
	// syncs are how long it took to sync a file, again and again.
	syncs []silence
}

// watchMachine beats, and syncs a file now and then, for as long as the test runs.
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
	m.syncs = append(m.syncs, silence{began, monotonic()})
}

// told adds the beats of a program.
func (m *machine) told(beats []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silences = append(m.silences, silences(beats)...)
}

// late is by how much the machine kept programs from their beats between two instants. A
// runtime on the same machine cannot be held to less.
func (m *machine) late(from, to int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, longest(slices.Concat(silences(m.beats), m.silences), from, to)-beat)
}

// slowest is the longest that a sync took which was under way between two instants.
func (m *machine) slowest(from, to int64) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return longest(m.syncs, from, to)
}
