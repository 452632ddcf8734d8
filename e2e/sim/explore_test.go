package sim

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/kubelet"
)

var (
	exploredFaults = flag.Int("faults", 1, "how many faults a run of TestExplore has at most")
	exploredLives  = flag.Int("lives", 0, "how many runs TestExplore makes at most; 0 means all")
)

// recreateStory is the explored story: a pod is created, deleted, force-deleted, and created again
// with the same name.
func recreateStory() *World {
	w, kernel, drive := NewWorld(NewNet(1, FaultRates{}, 0)), NewKernel(), &Drive{seed: 1}
	w.Add(APIServer, func() Process { return NewAPIServer(drive, nil, func() {}) }, 0)
	w.Add("runtime/node-1", func() Process { return newRuntime("node-1", kernel) }, time.Second)
	w.Add("kubelet/node-1", func() Process {
		k := newKubelet("node-1", kernel, kubelet.Default())
		k.of.silent = true
		return k
	}, time.Second)
	w.Add(User, func() Process {
		return &player{acts: []act{
			create(5*time.Second, "on TERM exits 0 after 2s"), remove(15300*time.Millisecond, 5), remove(22*time.Second, 0),
			create(23*time.Second, "on TERM exits 0 after 1s"),
		}}
	}, 0)
	return w
}

// checkExplored checks the invariants that must hold at any time, and that no kubelet removes an
// unmarked pod.
func checkExplored(w *World) error {
	log := w.History()
	results, err := guarantees.Check(guarantees.Evidence{Log: log, Store: StoreLog(w.Persisted(APIServer, diskStore))})
	if err != nil && !errors.Is(err, guarantees.ErrNothing) {
		return err
	}
	for _, r := range results {
		if !strings.HasPrefix(r.ID, "L") && r.Err() != nil {
			return r.Err()
		}
	}
	return checkMarked(log)
}

func checkMarked(log history.Log) error {
	asked, marked := map[string]string{}, map[string]string{}
	for _, e := range log.Events {
		switch fact := e.Fact.(type) {
		case history.OpCall:
			asked[e.Cause] = fact.Identity
		case history.Commit:
			if fact.Resource != "pods" {
				continue
			}
			if fact.Op == "DELETED" && strings.HasPrefix(asked[e.Cause], "node:") && marked[fact.UID] == "" {
				return fmt.Errorf("a kubelet has removed pod %s of uid %s, which nobody had marked", fact.Key, fact.UID)
			}
			if fact.Deadline != nil && !strings.HasPrefix(asked[e.Cause], "node:") {
				marked[fact.UID] = e.Cause
			}
		}
	}
	return nil
}

func explorer(t *testing.T, build func() *World, faults int, check func(*World) error) *Explorer {
	return &Explorer{
		Bubble: func(play func()) { synctest.Test(t, func(*testing.T) { play() }) },
		Build:  build, Duration: 45 * time.Second, Faults: faults, Check: check,
	}
}

// TestExplore plays every order, and every fault in it.
func TestExplore(t *testing.T) {
	began := time.Now()
	x := explorer(t, recreateStory, *exploredFaults, checkExplored)
	x.Runs = *exploredLives
	found := x.Explore()
	t.Logf("figures: %d runs, %d to their end, %d states, at most %d choices deep, all of them: %t; in %v",
		found.Runs, found.Ended, found.States, found.Depth, found.Complete, time.Since(began))
	if found.Violation != nil {
		t.Errorf("%v\n%s", found.Violation, strings.Join(found.Story, "\n"))
	}
	if found.States < 100 || *exploredLives == 0 && !found.Complete && found.Violation == nil {
		t.Errorf("it has met %d states, all of them: %t: that is no exploration", found.States, found.Complete)
	}
}
