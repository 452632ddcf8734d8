// Package timeline tells one deletion of a pod across all processes, out of what they
// have written down: a lane for each, and a row for each step, with the rule that it
// follows and how much of the grace had passed. It is pure.
package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// Lane is a process's column.
type Lane string

// The lanes, in the order in which a deletion goes through them.
const (
	Client      Lane = "client"
	APIServer   Lane = "apiserver"
	Kubelet     Lane = "kubelet"
	Runtime     Lane = "runtime"
	Controllers Lane = "controllers"
)

// Lanes are all of them.
func Lanes() []Lane { return []Lane{Client, APIServer, Kubelet, Runtime, Controllers} }

// Timeline is one deletion.
type Timeline struct {
	// Pod is namespace/name.
	Pod  string `json:"pod"`
	UID  string `json:"uid"`
	Node string `json:"node,omitempty"`
	// Began is when it was asked for, on the cluster's clock.
	Began time.Time `json:"began"`
	// GraceSeconds is what the deletion was given at first.
	GraceSeconds int64 `json:"graceSeconds"`
	// Over says that the object is gone, and nothing of it alive.
	Over  bool   `json:"over"`
	Steps []Step `json:"steps"`
}

// Step is one thing that a process did.
type Step struct {
	At time.Time `json:"at"`
	// AfterSeconds is how long after the deletion was asked for.
	AfterSeconds float64 `json:"afterSeconds"`
	// Grace is the share of the grace that had passed, 1 for all of it; more than 1 is
	// longer. It is 0 for a deletion without a grace.
	Grace   float64 `json:"grace"`
	Lane    Lane    `json:"lane"`
	Process string  `json:"process"`
	Text    string  `json:"text"`
	// Rule is the ID of the rule that the step follows; empty for none.
	Rule string `json:"rule,omitempty"`
}

// Of is the newest deletion of a pod in events that are in order; false when there is
// none. The pod is namespace/name; uid, if not empty, chooses an incarnation.
func Of(events []history.Event, pod, uid string) (Timeline, bool) {
	uid, mark := marked(events, pod, uid)
	if mark < 0 {
		return Timeline{}, false
	}
	t := &teller{Timeline: Timeline{Pod: pod, UID: uid}, ours: map[string]bool{}, containers: map[string]string{}}
	begin := t.begin(events, mark)
	for _, e := range events[begin:] {
		t.tell(e)
	}
	t.Over = t.gone && len(t.containers) == 0
	return t.Timeline, true
}

// marked finds the commit by which the newest incarnation of a pod began to be deleted.
func marked(events []history.Event, pod, uid string) (string, int) {
	at := -1
	for i, e := range events {
		c, ok := e.Fact.(history.Commit)
		if !ok || c.Resource != "pods" || c.Key != pod || uid != "" && c.UID != uid {
			continue
		}
		if c.Deadline == nil && c.Op != "DELETED" {
			continue
		}
		if at < 0 || events[at].Fact.(history.Commit).UID != c.UID { //nolint:forcetypeassert,errcheck // it was one
			at = i
		}
	}
	if at < 0 {
		return "", at
	}
	c, _ := events[at].Fact.(history.Commit)
	return c.UID, at
}

// teller tells a deletion event by event.
type teller struct {
	Timeline

	// ours are the operations that have changed the pod.
	ours map[string]bool
	// containers are those that are alive, by id.
	containers map[string]string
	// state is the pod as of the last commit.
	state history.Commit
	gone  bool
}

// begin finds the request behind the mark, and what was alive before it.
func (t *teller) begin(events []history.Event, mark int) int {
	first, _ := events[mark].Fact.(history.Commit)
	t.Began, t.Node = events[mark].Wall, first.Node
	if first.Grace != nil {
		t.GraceSeconds = *first.Grace
	}
	for _, e := range events {
		if c, ok := e.Fact.(history.Commit); ok && c.UID == t.UID && e.Cause != "" {
			t.ours[e.Cause] = true
		}
	}
	begin := mark
	for i := mark - 1; i >= 0; i-- {
		if call, ok := events[i].Fact.(history.OpCall); ok && events[i].Cause == events[mark].Cause && call.Key == t.Pod {
			begin, t.Began = i, events[i].Wall
			break
		}
	}
	t.before(events[:begin])
	return begin
}

// before takes in what was alive, and the pod as it was, before its deletion began.
func (t *teller) before(events []history.Event) {
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.Start:
			if fact.UID == t.UID {
				t.containers[fact.Container] = fact.ContainerName
			}
		case history.Recover:
			if fact.UID == t.UID {
				t.containers[fact.Container] = fact.ContainerName
			}
		case history.Exit:
			delete(t.containers, fact.Container)
		case history.Commit:
			if fact.UID == t.UID {
				t.state = fact
			}
		}
	}
}

func (t *teller) step(e history.Event, lane Lane, rule, format string, args ...any) {
	after := e.Wall.Sub(t.Began)
	s := Step{
		At: e.Wall, AfterSeconds: after.Seconds(), Lane: lane, Process: e.Process, Text: fmt.Sprintf(format, args...), Rule: rule,
	}
	if t.GraceSeconds > 0 {
		s.Grace = max(after.Seconds()/float64(t.GraceSeconds), 0)
	}
	t.Steps = append(t.Steps, s)
}

// tell adds the steps of one event.
func (t *teller) tell(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.OpCall:
		t.call(e, fact)
	case history.OpReturn:
		if t.ours[e.Cause] && fact.Code >= 400 {
			t.step(e, APIServer, "", "refuses: %d", fact.Code)
		}
	case history.Commit:
		if fact.UID == t.UID && fact.Resource == "pods" {
			t.commit(e, fact)
		}
	case history.Decide:
		if fact.Resource == "pods" && fact.Key == t.Pod {
			t.step(e, Controllers, "", "%s: %s", fact.Controller, fact.Action)
		}
	case history.Blocker:
		if fact.UID == t.UID {
			t.step(e, Controllers, "", "says that it waits: %s", fact.Reason)
		}
	default:
		t.node(e)
	}
}

func (t *teller) call(e history.Event, call history.OpCall) {
	if call.Resource != "pods" || call.Key != t.Pod || call.Verb != "delete" || call.PreUID != "" && call.PreUID != t.UID {
		return
	}
	grace := "its own grace"
	if call.Grace != nil {
		grace = fmt.Sprintf("a grace of %ds", *call.Grace)
	}
	if strings.HasPrefix(call.Identity, "node:") {
		t.step(e, Kubelet, "KBL-64", "asks for the object to go: nothing is left on the node")
		return
	}
	lane, rule := Client, "API-01"
	if call.Identity == "controllers" {
		lane = Controllers
	}
	t.step(e, lane, rule, "%s asks for the deletion, with %s", call.Identity, grace)
}

// commit says what a change of the object means.
func (t *teller) commit(e history.Event, now history.Commit) {
	was := t.state
	t.state = now
	switch {
	case now.Op == "DELETED":
		t.gone = true
		t.step(e, APIServer, "API-40", "the object is removed (rv %d)", now.Revision)
	case was.Deadline == nil && now.Deadline != nil:
		t.step(e, APIServer, "API-12", "marks the pod: deadline %s, grace %ds (rv %d)", now.Deadline.UTC().Format(time.TimeOnly), grace(now), now.Revision)
	case now.Deadline != nil && grace(now) < grace(was):
		rule := "API-24"
		if grace(now) == 0 {
			rule = "API-41"
		}
		t.step(e, APIServer, rule, "shortens the grace from %ds to %ds (rv %d)", grace(was), grace(now), now.Revision)
	case len(now.Finalizers) < len(was.Finalizers):
		t.step(e, APIServer, "API-53", "finalizers left: %v (rv %d)", now.Finalizers, now.Revision)
	case now.Phase != was.Phase:
		t.step(e, APIServer, "KBL-69", "phase %s (rv %d)", now.Phase, now.Revision)
	}
	if now.Op != "DELETED" && len(now.Finalizers) > 0 && grace(now) == 0 && grace(was) > 0 {
		t.step(e, APIServer, "API-52", "keeps the object for finalizers %v", now.Finalizers)
	}
}

func grace(c history.Commit) int64 {
	if c.Grace == nil {
		return 0
	}
	return *c.Grace
}

// node is what happens on the pod's node.
func (t *teller) node(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.KubeletSee:
		t.see(e, fact)
	case history.KubeletTerm:
		if fact.UID == t.UID {
			t.step(e, Kubelet, "KBL-30", "begins to stop the pod, within %ds", fact.Grace)
		}
	case history.KubeletStuck:
		if fact.UID == t.UID {
			t.step(e, Kubelet, "KBL-31", "fails to %s: %s", fact.Doing, fact.Err)
		}
	case history.KubeletStatus:
		if fact.UID == t.UID {
			t.step(e, Kubelet, "KBL-63", "has reported the status: %s", fact.Phase)
		}
	case history.KubeletFinal:
		if fact.UID == t.UID && fact.Err != "" {
			t.step(e, Kubelet, "KBL-65", "could not have the object removed: %s", fact.Err)
		}
	case history.KubeletForget:
		if fact.UID == t.UID {
			t.step(e, Kubelet, "KBL-15", "forgets the pod")
		}
	case history.PostStartBegin:
		t.container(e, Kubelet, fact.ContainerRef, "KBL-19", "runs the postStart hook")
	case history.PostStartEnd:
		t.container(e, Kubelet, fact.ContainerRef, "KBL-19", "postStart hook is over")
	case history.PreStopBegin:
		t.container(e, Kubelet, fact.ContainerRef, "KBL-33", "runs the preStop hook")
	case history.PreStopEnd:
		t.container(e, Kubelet, fact.ContainerRef, "KBL-45", "preStop hook is over")
	case history.Unmount:
		if fact.UID == t.UID {
			t.step(e, Kubelet, "KBL-60", "unmounts %s", fact.Volume)
		}
	default:
		t.runtime(e)
	}
}

func (t *teller) see(e history.Event, fact history.KubeletSee) {
	switch {
	case fact.UID != t.UID:
	case fact.Op == "REMOVE":
		t.step(e, Kubelet, "KBL-04", "sees that the object is gone")
	case fact.Grace != nil && fact.Op != "RECONCILE":
		t.step(e, Kubelet, "KBL-02", "sees the mark: grace %ds (rv %s)", *fact.Grace, fact.Revision)
	}
}

func (t *teller) runtime(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.Start:
		if fact.UID == t.UID {
			t.containers[fact.Container] = fact.ContainerName
		}
		t.container(e, Runtime, fact.ContainerRef, "", "starts")
	case history.Recover:
		if _, told := t.containers[fact.Container]; fact.UID == t.UID && !told {
			t.containers[fact.Container] = fact.ContainerName
			t.container(e, Runtime, fact.ContainerRef, "", "is found started")
		}
	case history.Process:
		t.container(e, Runtime, fact.ContainerRef, "", fmt.Sprintf("runs as process %d", fact.PID))
	case history.Signal:
		rule := "CRI-03"
		if fact.Signal != "SIGKILL" {
			rule = "CRI-07"
		}
		t.container(e, Runtime, fact.ContainerRef, rule, "gets "+fact.Signal)
	case history.Exit:
		delete(t.containers, fact.Container)
		t.container(e, Runtime, fact.ContainerRef, "CRI-11", fmt.Sprintf("exits with %d", fact.Code))
	case history.SandboxStop:
		if fact.UID == t.UID {
			t.step(e, Runtime, "CRI-04", "stops the sandbox")
		}
	case history.SandboxRemove:
		if fact.UID == t.UID {
			t.step(e, Runtime, "KBL-61", "removes the sandbox")
		}
	}
}

func (t *teller) container(e history.Event, lane Lane, of history.ContainerRef, rule, text string) {
	if of.UID == t.UID {
		t.step(e, lane, rule, "%s %s", of.ContainerName, text)
	}
}
