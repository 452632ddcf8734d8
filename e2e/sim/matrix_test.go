package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// TestPhases reads a deletion that goes through all phases but the last, and a forced one.
func TestPhases(t *testing.T) {
	second, all := 0, history.Log{}
	note := func(fact history.Fact) {
		second++
		at := time.Unix(int64(second), 0).UnixNano()
		all.Events = append(all.Events, history.Event{Began: at, Ended: at, Cause: "op", Fact: fact})
	}
	one, grace := history.ContainerRef{Pod: "default/a", UID: "u", Container: "c"}, func(g int64) *int64 { return &g }
	commit := func(op, phase string, seconds int64) history.Commit {
		c := history.Commit{Resource: "pods", Key: "default/a", UID: "u", Op: op, Node: "node-1", Phase: phase, Grace: grace(seconds), Deadline: &time.Time{}}
		c.Finalizers = []string{"ex.io/x"}
		return c
	}
	note(history.Start{ContainerRef: one})
	note(history.OpCall{Verb: "delete", Resource: "pods", Key: "default/a"})
	note(commit("MODIFIED", "Running", 30))
	note(history.OpReturn{})
	note(history.KubeletSee{UID: "u", Grace: grace(30)})
	note(history.PreStopBegin{ContainerRef: one})
	note(history.PreStopEnd{ContainerRef: one})
	note(history.Signal{ContainerRef: one, Signal: "SIGTERM"})
	note(history.KubeletSee{UID: "u", Grace: grace(2)})
	note(history.Signal{ContainerRef: one, Signal: "SIGKILL"})
	note(history.Exit{ContainerRef: one})
	note(commit("MODIFIED", "Failed", 2))
	note(commit("MODIFIED", "Failed", 0))
	all.Events = append(all.Events, history.Event{
		Began: time.Unix(12, 0).UnixNano(), Ended: time.Unix(13, 0).UnixNano(), Fact: history.KubeletFinal{UID: "u"},
	})
	note(commit("DELETED", "Failed", 0))
	note(history.Start{ContainerRef: history.ContainerRef{UID: "v", Container: "d"}})
	note(history.Commit{Resource: "pods", Key: "default/b", UID: "v", Op: "DELETED"})
	note(history.Exit{ContainerRef: history.ContainerRef{UID: "v", Container: "d"}})

	var got []Phase
	for _, s := range phaseSpans(all) {
		if !s.to.After(s.from) {
			t.Errorf("%v lasts from %v to %v", s.phase, s.from, s.to)
		}
		got = append(got, s.phase)
	}
	want := []Phase{Asked, Marked, Heard, Hooked, Heard, Stopping, Hurried, Killed, Ended, Reported, Confirming, Held, Orphaned}
	if !slices.Equal(got, want) {
		t.Errorf("phases %v\nwant   %v", got, want)
	}
}

// TestMatrix has a kubelet crash and a skewed apiserver clock while a program ignores its stop
// signal. Both meet the deletion; faults of another node or pod do not.
func TestMatrix(t *testing.T) {
	start := time.Unix(100, 0)
	log := history.Log{}
	for i, fact := range []history.Fact{
		history.Start{ContainerRef: history.ContainerRef{UID: "u", Container: "c"}},
		history.Commit{Resource: "pods", Key: "default/a", UID: "u", Op: "MODIFIED", Node: "node-1", Grace: new(int64), Deadline: &start},
		history.KubeletSee{UID: "u", Grace: new(int64)},
		history.Signal{ContainerRef: history.ContainerRef{UID: "u", Container: "c"}, Signal: "SIGTERM"},
		history.Exit{ContainerRef: history.ContainerRef{UID: "u", Container: "c"}},
	} {
		at := start.Add(time.Duration(i) * 10 * time.Second).UnixNano()
		log.Events = append(log.Events, history.Event{Began: at, Ended: at, Fact: fact})
	}
	m := MatrixOf(Result{
		Log: log,
		Script: Script{Actions: []Action{
			{At: 32 * time.Second, Kind: Crash, Name: "kubelet/node-1", For: time.Second},
			{At: 32 * time.Second, Kind: Crash, Name: "kubelet/node-2", For: time.Second},
			{At: 32 * time.Second, Kind: SkewClock, Name: APIServer, Detail: "1h0m0s", For: time.Second},
			{At: 32 * time.Second, Kind: SkewClock, Name: "kubelet/node-2", Detail: "1h0m0s", For: time.Second},
		}},
		Deviations: []Deviation{{
			Passage: Passage{Link: Link{"kubelet/node-1", APIServer}, Kind: "call", About: "update pods/status default/b", Second: 32},
		}},
	})
	var want Matrix
	want[Stopping][KubeletDown], want[Stopping][WrongClock] = 1, 1
	if m != want {
		t.Errorf("met\n%vwant\n%v", &m, &want)
	}
	if got := len(m.Empty()); got != int(phaseCount)*int(classCount)-2 {
		t.Errorf("%d cells are empty", got)
	}
}
