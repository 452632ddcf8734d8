package mgmt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
)

// origin is when the states of these tests begin, on both clocks.
var origin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// instantAfter returns an instant on a cluster that runs twice as fast as the wall.
func instantAfter(wall time.Duration) mgmt.Instant {
	return mgmt.Instant{Wall: origin.Add(wall), Cluster: origin.Add(2 * wall)}
}

func emptyState(t *testing.T) mgmt.FaultState {
	t.Helper()
	schedule, err := clock.NewSchedule(origin, 2)
	if err != nil {
		t.Fatal(err)
	}
	return mgmt.FaultState{Epoch: "e", Clock: schedule, Members: partition.Members([]string{"node-1", "node-2"})}
}

func durationOf(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func addFault(name string, d time.Duration, replace bool) mgmt.Change {
	return mgmt.Change{AddFault: &mgmt.AddFault{Name: name, Replace: replace, Spec: fault.Spec{
		Point: fault.VolumeMount, Effect: fault.Effect{Kind: fault.Hang}, Duration: durationOf(d),
	}}}
}

func addCut(name, member, holder string, only ...partition.Message) mgmt.Change {
	return mgmt.Change{Cut: &mgmt.AddCut{Name: name, Holder: holder, Spec: partition.Spec{Members: []string{member}, Only: only}}}
}

// names lists what a state holds: faults, then cuts.
func names(b mgmt.FaultState) string {
	var all []string
	for _, f := range b.Faults {
		all = append(all, f.Name)
	}
	for _, c := range b.Cuts {
		all = append(all, "cut:"+c.Name)
	}
	return strings.Join(all, " ")
}

func TestApply(t *testing.T) {
	type step struct {
		at     time.Duration
		change mgmt.Change
		want   string
		fails  error // or the text below
		text   string
	}
	heal := func(s mgmt.Selection) mgmt.Change { return mgmt.Change{Heal: &s} }
	for name, steps := range map[string][]step{
		"faults": {
			{0, addFault("a", 0, false), "a", nil, ""},
			{0, addFault("b", time.Minute, false), "a b", nil, ""},
			{0, addFault("a", 0, false), "a b", mgmt.ErrExists, ""},
			{0, addFault("a", 0, true), "a b", nil, ""},
			{0, addFault("A", 0, false), "a b", nil, "metadata.name"},
			{0, mgmt.Change{ClearFaults: &mgmt.Selection{Names: []string{"a", "x"}}}, "a b", mgmt.ErrNotFound, `fault "x"`},
			// A minute of the cluster is half a minute of the wall.
			{31 * time.Second, addFault("c", 0, false), "a c", nil, ""},
			{31 * time.Second, mgmt.Change{ClearFaults: &mgmt.Selection{Names: []string{"a"}}}, "c", nil, ""},
			{31 * time.Second, mgmt.Change{ClearFaults: &mgmt.Selection{All: true}}, "", nil, ""},
		},
		"cuts": {
			{0, addCut("one", "node-1", ""), "cut:one", nil, ""},
			{0, addCut("two", "node-2", ""), "cut:one cut:two", nil, ""},
			{0, addCut("x", "node-9", ""), "cut:one cut:two", nil, "spec.parties[0]"},
			{0, heal(mgmt.Selection{Members: []string{"gateway"}}), "cut:one cut:two", mgmt.ErrNotFound, ""},
			{0, heal(mgmt.Selection{Members: []string{"node-2"}}), "cut:one", nil, ""},
			{0, heal(mgmt.Selection{All: true}), "", nil, ""},
			{0, heal(mgmt.Selection{All: true}), "", nil, ""}, // nothing to heal is no error
			{0, mgmt.Change{}, "", mgmt.ErrNoChange, ""},
		},
		"a lease": {
			{0, addCut("held", "node-1", "somebody"), "cut:held", nil, ""},
			{5 * time.Second, mgmt.Change{Renew: "held"}, "cut:held", nil, ""},
			{10 * time.Second, mgmt.Change{Renew: "held"}, "cut:held", nil, ""},
			{16 * time.Second, mgmt.Change{Renew: "held"}, "", mgmt.ErrNotFound, ""}, // Term is over
		},
		"no lease to renew": {
			{0, addCut("free", "node-1", ""), "cut:free", nil, ""},
			{0, mgmt.Change{Renew: "free"}, "cut:free", mgmt.ErrNotFound, ""},
		},
	} {
		state := emptyState(t)
		for i, s := range steps {
			before := state
			next, err := state.Apply(s.change, instantAfter(s.at))
			switch {
			case s.fails == nil && s.text == "" && err != nil, s.fails != nil && !errors.Is(err, s.fails),
				s.text != "" && (err == nil || !strings.Contains(err.Error(), s.text)):
				t.Errorf("%s, step %d: %v, want %v %q", name, i, err, s.fails, s.text)
			case err == nil && !next.IsNewerThan(before):
				t.Errorf("%s, step %d: revision %d after %d", name, i, next.Revision, before.Revision)
			}
			state = next
			if got := names(state.WithoutExpired(instantAfter(s.at))); got != s.want {
				t.Errorf("%s, step %d: on the board %q, want %q", name, i, got, s.want)
			}
		}
	}
}

// TestNextExpiry: the keeper knows when to look again, on each clock.
func TestNextExpiry(t *testing.T) {
	state := emptyState(t)
	for _, change := range []mgmt.Change{addFault("a", time.Hour, false), addFault("b", time.Minute, false), addCut("c", "node-1", "me"), addCut("d", "node-2", "")} {
		var err error
		if state, err = state.Apply(change, instantAfter(0)); err != nil {
			t.Fatal(err)
		}
	}
	if ends := state.NextExpiry(); !ends.Cluster.Equal(origin.Add(time.Minute)) || !ends.Wall.Equal(origin.Add(mgmt.LeaseDuration)) {
		t.Errorf("ends %+v", ends)
	}
	if ends := emptyState(t).NextExpiry(); !ends.Cluster.IsZero() || !ends.Wall.IsZero() {
		t.Errorf("an empty board ends %+v", ends)
	}
}

// TestAllFaults includes the messages that a cut holds.
func TestAllFaults(t *testing.T) {
	state := emptyState(t)
	for _, change := range []mgmt.Change{addFault("a", 0, false), addCut("c", "node-1", "", partition.Leases)} {
		var err error
		if state, err = state.Apply(change, instantAfter(0)); err != nil {
			t.Fatal(err)
		}
	}
	all := state.AllFaults()
	if len(all) != 2 || all[1].Name != "c.node-1.lease" || all[1].Spec.Where.Process != "kubelet/node-1" {
		t.Errorf("all faults are %+v", all)
	}
}
