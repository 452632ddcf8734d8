// Package timeline describes one deletion of a pod across all processes, from their histories. Each
// step has the lane of its process, the rule that it follows, and the share of the grace period
// that had passed. The package is pure.
package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// Lane is the column of a process.
type Lane string

// The lanes, in the order in which a deletion passes them.
const (
	Client      Lane = "client"
	APIServer   Lane = "apiserver"
	Kubelet     Lane = "kubelet"
	Runtime     Lane = "runtime"
	Controllers Lane = "controllers"
)

// Lanes returns all lanes in order.
func Lanes() []Lane { return []Lane{Client, APIServer, Kubelet, Runtime, Controllers} }

// Timeline is one deletion of a pod.
type Timeline struct {
	// Pod is namespace/name.
	Pod  string `json:"pod"`
	UID  string `json:"uid"`
	Node string `json:"node,omitempty"`
	// Began is when the deletion was requested, in cluster time.
	Began time.Time `json:"began"`
	// GraceSeconds is the grace period that the deletion set first.
	GraceSeconds int64 `json:"graceSeconds"`
	// Over says that the object is gone and no container is alive.
	Over  bool   `json:"over"`
	Steps []Step `json:"steps"`
}

// Step is one action of a process.
type Step struct {
	At time.Time `json:"at"`
	// AfterSeconds is the time since the deletion was requested.
	AfterSeconds float64 `json:"afterSeconds"`
	// Grace is the share of the grace period that had passed. 1 is all of it, and more is later. It
	// is 0 for a deletion without a grace period.
	Grace   float64 `json:"grace"`
	Lane    Lane    `json:"lane"`
	Process string  `json:"process"`
	Text    string  `json:"text"`
	// Rule is the id of the rule that the step follows; empty for none.
	Rule string `json:"rule,omitempty"`
}

// Find returns the newest deletion of a pod in a sorted history; false if there is none. The pod is
// namespace/name. uid, if not empty, selects an incarnation.
func Find(events []history.Event, pod, uid string) (Timeline, bool) {
	uid, mark := findMark(events, pod, uid)
	if mark < 0 {
		return Timeline{}, false
	}
	b := &builder{Timeline: Timeline{Pod: pod, UID: uid}, operations: map[string]bool{}, containers: map[string]string{}}
	begin := b.findStart(events, mark)
	for _, e := range events[begin:] {
		b.addEvent(e)
	}
	b.Over = b.gone && len(b.containers) == 0
	return b.Timeline, true
}

// findMark returns the UID of the newest incarnation that was deleted, and the index of the commit
// that marked it.
func findMark(events []history.Event, pod, uid string) (string, int) {
	at := -1
	for i, e := range events {
		c, ok := e.Fact.(history.Commit)
		if !ok || c.Resource != "pods" || c.Key != pod || uid != "" && c.UID != uid {
			continue
		}
		if c.Deadline == nil && c.Op != "DELETED" {
			continue
		}
		if at < 0 || events[at].Fact.(history.Commit).UID != c.UID { //nolint:forcetypeassert,errcheck // at is the index of a commit
			at = i
		}
	}
	if at < 0 {
		return "", at
	}
	c, _ := events[at].Fact.(history.Commit)
	return c.UID, at
}

// builder builds a timeline event by event.
type builder struct {
	Timeline

	// operations holds the ids of the operations that changed the pod.
	operations map[string]bool
	// containers holds the names of the live containers, by id.
	containers map[string]string
	// state is the pod as of the last commit.
	state history.Commit
	gone  bool
}

// findStart returns the index of the request behind the mark, and adds the events before it.
func (b *builder) findStart(events []history.Event, mark int) int {
	first, _ := events[mark].Fact.(history.Commit)
	b.Began, b.Node = events[mark].Wall, first.Node
	if first.Grace != nil {
		b.GraceSeconds = *first.Grace
	}
	for _, e := range events {
		if c, ok := e.Fact.(history.Commit); ok && c.UID == b.UID && e.Cause != "" {
			b.operations[e.Cause] = true
		}
	}
	begin := mark
	for i := mark - 1; i >= 0; i-- {
		if call, ok := events[i].Fact.(history.OpCall); ok && events[i].Cause == events[mark].Cause && call.Key == b.Pod {
			begin, b.Began = i, events[i].Wall
			break
		}
	}
	b.addEarlier(events[:begin])
	return begin
}

// addEarlier records the live containers and the pod as they were before the deletion.
func (b *builder) addEarlier(events []history.Event) {
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.Start:
			if fact.UID == b.UID {
				b.containers[fact.Container] = fact.ContainerName
			}
		case history.Recover:
			if fact.UID == b.UID {
				b.containers[fact.Container] = fact.ContainerName
			}
		case history.Exit:
			delete(b.containers, fact.Container)
		case history.Commit:
			if fact.UID == b.UID {
				b.state = fact
			}
		}
	}
}

func (b *builder) addStep(e history.Event, lane Lane, rule, format string, args ...any) {
	after := e.Wall.Sub(b.Began)
	s := Step{
		At: e.Wall, AfterSeconds: after.Seconds(), Lane: lane, Process: e.Process, Text: fmt.Sprintf(format, args...), Rule: rule,
	}
	if b.GraceSeconds > 0 {
		s.Grace = max(after.Seconds()/float64(b.GraceSeconds), 0)
	}
	b.Steps = append(b.Steps, s)
}

// addEvent adds the steps of one event.
func (b *builder) addEvent(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.OpCall:
		b.addCall(e, fact)
	case history.OpReturn:
		if b.operations[e.Cause] && fact.Code >= 400 {
			b.addStep(e, APIServer, "", "refuses: %d", fact.Code)
		}
	case history.Commit:
		if fact.UID == b.UID && fact.Resource == "pods" {
			b.addCommit(e, fact)
		}
	case history.Decide:
		if fact.Resource == "pods" && fact.Key == b.Pod {
			b.addStep(e, Controllers, "", "%s: %s", fact.Controller, fact.Action)
		}
	case history.Blocker:
		if fact.UID == b.UID {
			b.addStep(e, Controllers, "", "says that it waits: %s", fact.Reason)
		}
	default:
		b.addNodeEvent(e)
	}
}

func (b *builder) addCall(e history.Event, call history.OpCall) {
	if call.Resource != "pods" || call.Key != b.Pod || call.Verb != "delete" || call.PreUID != "" && call.PreUID != b.UID {
		return
	}
	grace := "its own grace"
	if call.Grace != nil {
		grace = fmt.Sprintf("a grace of %ds", *call.Grace)
	}
	if strings.HasPrefix(call.Identity, "node:") {
		b.addStep(e, Kubelet, "KBL-64", "asks for the object to go: nothing is left on the node")
		return
	}
	lane, rule := Client, "API-01"
	if call.Identity == "controllers" {
		lane = Controllers
	}
	b.addStep(e, lane, rule, "%s asks for the deletion, with %s", call.Identity, grace)
}

// addCommit adds the meaning of a change of the object.
func (b *builder) addCommit(e history.Event, now history.Commit) {
	was := b.state
	b.state = now
	switch {
	case now.Op == "DELETED":
		b.gone = true
		b.addStep(e, APIServer, "API-40", "the object is removed (rv %d)", now.Revision)
	case was.Deadline == nil && now.Deadline != nil:
		b.addStep(e, APIServer, "API-12", "marks the pod: deadline %s, grace %ds (rv %d)", now.Deadline.UTC().Format(time.TimeOnly), graceOf(now), now.Revision)
	case now.Deadline != nil && graceOf(now) < graceOf(was):
		rule := "API-24"
		if graceOf(now) == 0 {
			rule = "API-41"
		}
		b.addStep(e, APIServer, rule, "shortens the grace from %ds to %ds (rv %d)", graceOf(was), graceOf(now), now.Revision)
	case len(now.Finalizers) < len(was.Finalizers):
		b.addStep(e, APIServer, "API-53", "finalizers left: %v (rv %d)", now.Finalizers, now.Revision)
	case now.Phase != was.Phase:
		b.addStep(e, APIServer, "KBL-69", "phase %s (rv %d)", now.Phase, now.Revision)
	}
	if now.Op != "DELETED" && len(now.Finalizers) > 0 && graceOf(now) == 0 && graceOf(was) > 0 {
		b.addStep(e, APIServer, "API-52", "keeps the object for finalizers %v", now.Finalizers)
	}
}

func graceOf(c history.Commit) int64 {
	if c.Grace == nil {
		return 0
	}
	return *c.Grace
}

// addNodeEvent adds a step on the pod's node.
func (b *builder) addNodeEvent(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.KubeletSee:
		b.addSee(e, fact)
	case history.KubeletTerm:
		if fact.UID == b.UID {
			b.addStep(e, Kubelet, "KBL-30", "begins to stop the pod, within %ds", fact.Grace)
		}
	case history.KubeletStuck:
		if fact.UID == b.UID {
			b.addStep(e, Kubelet, "KBL-31", "fails to %s: %s", fact.Doing, fact.Err)
		}
	case history.KubeletStatus:
		if fact.UID == b.UID {
			b.addStep(e, Kubelet, "KBL-63", "has reported the status: %s", fact.Phase)
		}
	case history.KubeletFinal:
		if fact.UID == b.UID && fact.Err != "" {
			b.addStep(e, Kubelet, "KBL-65", "could not have the object removed: %s", fact.Err)
		}
	case history.KubeletForget:
		if fact.UID == b.UID {
			b.addStep(e, Kubelet, "KBL-15", "forgets the pod")
		}
	case history.PostStartBegin:
		b.addContainerStep(e, Kubelet, fact.ContainerRef, "KBL-19", "runs the postStart hook")
	case history.PostStartEnd:
		b.addContainerStep(e, Kubelet, fact.ContainerRef, "KBL-19", "postStart hook is over")
	case history.PreStopBegin:
		b.addContainerStep(e, Kubelet, fact.ContainerRef, "KBL-33", "runs the preStop hook")
	case history.PreStopEnd:
		b.addContainerStep(e, Kubelet, fact.ContainerRef, "KBL-45", "preStop hook is over")
	case history.Unmount:
		if fact.UID == b.UID {
			b.addStep(e, Kubelet, "KBL-60", "unmounts %s", fact.Volume)
		}
	default:
		b.addRuntimeEvent(e)
	}
}

func (b *builder) addSee(e history.Event, fact history.KubeletSee) {
	switch {
	case fact.UID != b.UID:
	case fact.Op == "REMOVE":
		b.addStep(e, Kubelet, "KBL-04", "sees that the object is gone")
	case fact.Grace != nil && fact.Op != "RECONCILE":
		b.addStep(e, Kubelet, "KBL-02", "sees the mark: grace %ds (rv %s)", *fact.Grace, fact.Revision)
	}
}

func (b *builder) addRuntimeEvent(e history.Event) {
	switch fact := e.Fact.(type) {
	case history.Start:
		if fact.UID == b.UID {
			b.containers[fact.Container] = fact.ContainerName
		}
		b.addContainerStep(e, Runtime, fact.ContainerRef, "", "starts")
	case history.Recover:
		if _, known := b.containers[fact.Container]; fact.UID == b.UID && !known {
			b.containers[fact.Container] = fact.ContainerName
			b.addContainerStep(e, Runtime, fact.ContainerRef, "", "is found started")
		}
	case history.Process:
		b.addContainerStep(e, Runtime, fact.ContainerRef, "", fmt.Sprintf("runs as process %d", fact.PID))
	case history.Signal:
		rule := "CRI-03"
		if fact.Signal != "SIGKILL" {
			rule = "CRI-07"
		}
		b.addContainerStep(e, Runtime, fact.ContainerRef, rule, "gets "+fact.Signal)
	case history.Exit:
		delete(b.containers, fact.Container)
		b.addContainerStep(e, Runtime, fact.ContainerRef, "CRI-11", fmt.Sprintf("exits with %d", fact.Code))
	case history.SandboxStop:
		if fact.UID == b.UID {
			b.addStep(e, Runtime, "CRI-04", "stops the sandbox")
		}
	case history.SandboxRemove:
		if fact.UID == b.UID {
			b.addStep(e, Runtime, "KBL-61", "removes the sandbox")
		}
	}
}

func (b *builder) addContainerStep(e history.Event, lane Lane, of history.ContainerRef, rule, text string) {
	if of.UID == b.UID {
		b.addStep(e, lane, rule, "%s %s", of.ContainerName, text)
	}
}
