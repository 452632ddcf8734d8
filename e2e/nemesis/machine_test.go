package nemesis

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// machine is when the machine stood still, as far as this process could see: to every other it
// is as if somebody had paused it.
type machine struct {
	mu     sync.Mutex
	stills [][2]int64
}

// watchMachine beats as long as the test runs, and takes a beat that is late for a pause.
func watchMachine(t *testing.T) *machine {
	t.Helper()
	const beat, late = 50 * time.Millisecond, 500 * time.Millisecond
	m, stop := &machine{}, make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		for last := clock.Monotonic(); ; {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			now := clock.Monotonic()
			if now-last > late.Nanoseconds() {
				m.mu.Lock()
				m.stills = append(m.stills, [2]int64{last, now})
				m.mu.Unlock()
			}
			last = now
		}
	})
	t.Cleanup(func() { close(stop); watching.Wait() })
	return m
}

// pauses adds to a history, whose order stays, that every process in it was paused while the
// machine stood still. The supervisor tells of it, which nobody asks for the time, and apart
// from pauses that the nemesis has asked for: those may last longer.
func (m *machine) pauses(events []history.Event) (all []history.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const supervisor = "supervisor"
	processes := map[string]bool{}
	for _, e := range events {
		processes[e.Process] = true
	}
	stills := m.stills
	for _, e := range events {
		for len(stills) > 0 && stills[0][0] < e.Ended {
			for process := range processes {
				trouble := history.Trouble{Kind: history.TroublePaused, What: process, Arguments: json.RawMessage(`"machine"`)}
				all = append(all,
					history.Event{Process: supervisor, Began: stills[0][0], Ended: stills[0][0], Fact: history.FaultBegin{Trouble: trouble}},
					history.Event{Process: supervisor, Began: stills[0][1], Ended: stills[0][1], Fact: history.FaultEnd{Trouble: trouble}})
			}
			stills = stills[1:]
		}
		all = append(all, e)
	}
	return all
}

// TestTheMachineStandsStill for a second while the apiserver is paused for longer, which ends no
// pause: a request that was let in before has its deadline behind that second.
func TestTheMachineStandsStill(t *testing.T) {
	const second = int64(time.Second)
	at := func(when int64, process, cause string, fact history.Fact) history.Event {
		return history.Event{Process: process, Cause: cause, Began: when * second, Ended: when * second, Wall: time.Unix(when, 0), Fact: fact}
	}
	made := history.Commit{Revision: 1, Resource: "configmaps", Key: "default/one", UID: "u1", Op: "ADDED"}
	asked := history.Trouble{Kind: history.TroublePaused, What: "apiserver"}
	m := &machine{stills: [][2]int64{{4 * second, 5 * second}}}
	events := m.pauses([]history.Event{
		at(1, "apiserver", "", history.StoreOpen{Sound: true}),
		at(2, "apiserver", "a", history.OpCall{Verb: "create", Who: "client:one", Left: new(int64(10_000))}),
		at(3, "supervisor", "", history.FaultBegin{Trouble: asked}),
		at(30, "supervisor", "", history.FaultEnd{Trouble: asked}),
		at(31, "apiserver", "a", made),
		at(32, "apiserver", "a", history.OpReturn{Code: 201, Revision: 1}),
	})
	if len(events) != 10 { // of the two who have told something each a beginning and an end
		t.Fatalf("%d events, want 10", len(events))
	}
	results, err := guarantees.Check(guarantees.Evidence{Log: history.Log{Events: events}})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(results, func(r guarantees.Result) bool { return r.ID == "N2" })
	if err := results[i].Err(); err != nil {
		t.Error(err)
	}
}
