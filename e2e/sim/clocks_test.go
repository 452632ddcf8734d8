package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// wrongClock sets a process' clock a day ahead at 40 s, and a day behind at 62 s, until 3 min.
func wrongClock(process string) []Action {
	return []Action{
		{At: 40 * time.Second, Kind: SkewClock, Name: process, Detail: "24h0m0s", For: 22 * time.Second},
		{At: 62 * time.Second, Kind: SkewClock, Name: process, Detail: "-24h0m0s", For: 118 * time.Second},
	}
}

// TestGraceWithAWrongClock has pods that ignore their stop signal be deleted while their kubelet's
// clock is a day ahead, and a day behind; it jumps while the first one's hook runs. Each has its
// grace period, to the second, and goes.
func TestGraceWithAWrongClock(t *testing.T) {
	pod := Action{At: 10 * time.Second, Kind: CreatePod, Name: "ant", Grace: new(int64(10)), App: App{IgnoresTerm: true}, PreStop: 3 * time.Second}
	other := pod
	other.Name, other.PreStop = "bee", 0
	actions := append(wrongClock("kubelet/node-1"), pod, other,
		Action{At: time.Minute, Kind: DeletePod, Name: "ant"}, Action{At: 90 * time.Second, Kind: DeletePod, Name: "bee"})
	result := runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 4 * time.Minute, Actions: actions})
	results, err := Judge(result)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if (r.ID == "K3" || r.ID == "K4") && r.Verdict != guarantees.Held {
			t.Errorf("%s %s", r.ID, r.Verdict)
		}
	}
	asked, killed, gone := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, e := range result.Log.Events {
		switch fact := e.Fact.(type) {
		case history.KubeletTerm:
			asked[fact.Pod] = e.Began
		case history.Signal:
			if fact.Signal == "SIGKILL" {
				killed[fact.Pod] = e.Began
			}
		case history.Commit:
			if fact.Op == "DELETED" {
				gone[fact.Key] = e.Began
			}
		}
	}
	for _, called := range []string{"default/ant", "default/bee"} {
		if took := time.Duration(killed[called] - asked[called]); took < 10*time.Second || took > 10*time.Second+50*time.Millisecond {
			t.Errorf("%s was killed after %v", called, took)
		}
		if took := time.Duration(gone[called] - killed[called]); took < 0 || took > 5*time.Second {
			t.Errorf("%s has gone %v after it was killed", called, took)
		}
	}
}

// TestNoNodeIsSilentByAClock sets the clock of the controllers wrong, or that of a kubelet: they
// hear of each other all the time, and no node is said to be silent.
func TestNoNodeIsSilentByAClock(t *testing.T) {
	for _, process := range []string{Controllers, "kubelet/node-1", APIServer} {
		result := runInBubble(t, Script{Recorded: true, Nodes: 2, Duration: 6 * time.Minute, Actions: wrongClock(process)})
		if _, err := Judge(result); err != nil {
			t.Errorf("%s: %v", process, err)
		}
		silent := slices.ContainsFunc(result.Log.Events, func(e history.Event) bool {
			decided, is := e.Fact.(history.Decide)
			return is && decided.Controller == "node-lifecycle-controller" && decided.Resource == "nodes" && decided.Action == "update"
		})
		if silent {
			t.Errorf("%s has a clock that is wrong, and a node was taken for silent", process)
		}
	}
}

// TestSkewedClockInHistory checks the history of a skewed clock: the product's fault, and shifted
// times of one process alone, in the order of events.
func TestSkewedClockInHistory(t *testing.T) {
	result := runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 2 * time.Minute, Actions: []Action{
		{At: 30 * time.Second, Kind: SkewClock, Name: "kubelet/node-1", Detail: "-1h0m0s", For: time.Minute},
	}})
	var off int
	for _, e := range result.Log.Events {
		switch wrong := e.Wall.Sub(time.Unix(0, e.Ended)); {
		case wrong == 0:
		case wrong == -time.Hour && e.Process == "kubelet/node-1":
			off++
		default:
			t.Errorf("%s %s is %v off", e.Process, e.Fact.Name(), wrong)
		}
	}
	if off == 0 {
		t.Error("the kubelet's times are right")
	}
}

// TestDrawnClocks draws scripts. A quarter of those with faults have clock faults, which end when
// the cluster has to converge. Fault-free scripts have none. A clock fault is recorded, and shown
// in a story.
func TestDrawnClocks(t *testing.T) {
	misled := 0
	for seed := range uint64(400) {
		script := Draw(seed, modeOf(seed), time.Hour)
		last, found := script.Duration, false
		if script.FaultsEnd > 0 {
			last = script.FaultsEnd
		}
		for _, action := range script.Actions {
			if action.Kind != SkewClock {
				continue
			}
			found = true
			if action.At+action.For >= last || clockFault(action, 0, time.Unix(0, 0)).Spec.Where.Process != action.Name {
				t.Errorf("seed %d: %v", seed, action)
			}
			if !strings.Contains(action.String(), "mislead the clock of "+action.Name+", "+action.Detail+", for ") {
				t.Errorf("its story is %q", action)
			}
		}
		if found {
			misled++
		}
		if slices.ContainsFunc(script.WithoutFaults().Actions, func(action Action) bool { return action.Kind == SkewClock }) {
			t.Errorf("seed %d: a clock is wrong in a fault-free run", seed)
		}
	}
	if misled < 60 || misled > 120 {
		t.Errorf("%d of 400 runs have clocks that are wrong", misled)
	}
}

// TestReadyAhead has the pods of a Deployment be called ready by a kubelet whose clock is a day ahead: it
// is rolled out when users have deleted them, and not before.
func TestReadyAhead(t *testing.T) {
	const calm = 5 * time.Minute
	made := Action{At: 50 * time.Second, Kind: CreateDeployment, Name: deploymentName, Count: 2, Grace: new(int64(1))}
	made.Shape.Rollout.Ready = 3
	actions := append(wrongClock("kubelet/node-1"), made)
	end := func(more ...Action) error {
		_, err := Judge(runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 12 * time.Minute, FaultsEnd: calm, Actions: slices.Concat(actions, more)}))
		return err
	}
	if err := end(); !errors.Is(err, ErrRollouts) {
		t.Errorf("without amends: %v, want %v", err, ErrRollouts)
	}
	if err := end(drawReadyAheadDeletes(calm, actions)...); err != nil {
		t.Error(err)
	}
}
