package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/internal/history"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// eventsOf returns events a second apart.
func eventsOf(facts ...any) []history.Event {
	var events []history.Event
	for i, fact := range facts {
		e := history.Event{Sequence: uint64(i + 1), Process: "p", Wall: begin.Add(time.Duration(i) * time.Second)}
		switch fact := fact.(type) {
		case history.Entry:
			e.Cause, e.Fact = fact.Cause, fact.Fact
		case history.Fact:
			e.Fact = fact
		}
		events = append(events, e)
	}
	return events
}

func commit(op string, rv, grace int64, phase string, finalizers ...string) history.Commit {
	c := history.Commit{Revision: rv, Resource: "pods", Key: "default/web", UID: "u1", Op: op, Node: "node-1", Phase: phase, Content: history.Content{Finalizers: finalizers}}
	if grace >= 0 {
		c.Grace, c.Deadline = &grace, new(begin.Add(time.Duration(grace)*time.Second))
	}
	return c
}

func (t Timeline) text() string {
	var out strings.Builder
	for _, s := range t.Steps {
		fmt.Fprintf(&out, "%+.0fs %.0f%% %s %s %s\n", s.AfterSeconds, 100*s.Grace, s.Lane, s.Rule, s.Text)
	}
	return out.String()
}

// TestGraceful: the timeline has the steps of a graceful deletion, and none of other pods or of
// earlier events.
func TestGraceful(t *testing.T) {
	of := history.ContainerRef{Pod: "default/web", UID: "u1", Container: "c1", ContainerName: "main"}
	other := history.ContainerRef{Pod: "default/web", UID: "u0", Container: "c0", ContainerName: "main"}
	events := eventsOf(
		commit("ADDED", 1, -1, "Pending"),
		history.Start{ContainerRef: of},
		history.Entry{Cause: "op1", Fact: history.OpCall{Identity: "client:admin", Verb: "delete", Resource: "pods", Key: "default/web"}},
		history.Entry{Cause: "op1", Fact: commit("MODIFIED", 2, 10, "Running")},
		history.KubeletSee{Pod: "default/web", UID: "u1", Op: "DELETE", Revision: "2", Grace: new(int64(10))},
		history.KubeletTerm{Pod: "default/web", UID: "u1", Grace: 10},
		history.Signal{ContainerRef: other, Signal: "SIGTERM"},
		history.Signal{ContainerRef: of, Signal: "SIGTERM"},
		history.Exit{ContainerRef: of, Code: 0},
		commit("MODIFIED", 3, 10, "Succeeded"),
		history.Entry{Cause: "op2", Fact: history.OpCall{Identity: "node:node-1", Verb: "delete", Resource: "pods", Key: "default/web", PreUID: "u1", Grace: new(int64(0))}},
		history.Entry{Cause: "op2", Fact: commit("DELETED", 4, 0, "Succeeded")},
	)
	timeline, found := Find(events, "default/web", "")
	if !found || !timeline.Over || timeline.UID != "u1" || timeline.Node != "node-1" || timeline.GraceSeconds != 10 {
		t.Fatalf("found %v: %+v", found, timeline)
	}
	want := `+0s 0% client API-01 client:admin asks for the deletion, with its own grace
+1s 10% apiserver API-12 marks the pod: deadline 12:00:10, grace 10s (rv 2)
+2s 20% kubelet KBL-02 sees the mark: grace 10s (rv 2)
+3s 30% kubelet KBL-30 begins to stop the pod, within 10s
+5s 50% runtime CRI-07 main gets SIGTERM
+6s 60% runtime CRI-11 main exits with 0
+7s 70% apiserver KBL-69 phase Succeeded (rv 3)
+8s 80% kubelet KBL-64 asks for the object to go: nothing is left on the node
+9s 90% apiserver API-40 the object is removed (rv 4)
`
	if diff := cmp.Diff(want, timeline.text()); diff != "" {
		t.Error(diff)
	}
}

// TestForced: a forced deletion is over only when the container has ended.
func TestForced(t *testing.T) {
	of := history.ContainerRef{Pod: "default/web", UID: "u1", Container: "c1", ContainerName: "main"}
	events := eventsOf(
		history.Start{ContainerRef: of}, commit("MODIFIED", 1, -1, "Running"),
		commit("MODIFIED", 2, 0, "Running"), commit("DELETED", 3, 0, "Running"),
	)
	timeline, found := Find(events, "default/web", "")
	if !found || timeline.Over {
		t.Fatalf("found %v, over %v: its container is alive", found, timeline.Over)
	}
	timeline, _ = Find(append(events, eventsOf(history.Exit{ContainerRef: of, Code: 137})...), "default/web", "u1")
	if !timeline.Over {
		t.Error("its container has ended, and it is not over")
	}
}

// TestFinalizer: the timeline has the finalizer that keeps the object, and its removal.
func TestFinalizer(t *testing.T) {
	timeline, _ := Find(eventsOf(
		commit("MODIFIED", 1, -1, "Running", "ex.io/x"), commit("MODIFIED", 2, 5, "Running", "ex.io/x"),
		commit("MODIFIED", 3, 0, "Succeeded", "ex.io/x"), commit("MODIFIED", 4, 0, "Succeeded"), commit("DELETED", 5, 0, "Succeeded"),
	), "default/web", "")
	for _, want := range []string{"API-52 keeps the object for finalizers [ex.io/x]", "API-53 finalizers left: [] (rv 4)"} {
		if !strings.Contains(timeline.text(), want) {
			t.Errorf("%q is missing in\n%s", want, timeline.text())
		}
	}
}

func TestNoDeletion(t *testing.T) {
	for name, events := range map[string][]history.Event{
		"nothing": nil, "not deleted": eventsOf(commit("ADDED", 1, -1, "Running")),
	} {
		if told, found := Find(events, "default/web", ""); found {
			t.Errorf("%s: %+v", name, told)
		}
	}
}
