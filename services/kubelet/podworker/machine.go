// Package podworker runs the pods of one node, one worker per UID. machine.go is the protocol of
// one pod, and pure. worker.go carries out the machine's actions, and workers.go keeps all workers
// of a node. housekeeping.go decides which workers to forget, and which pods are orphans.
//
// To stop: grace.go computes how long a stop may take. attempt.go orders the steps of one attempt,
// pure too. round2_stop.go carries the attempt out, and hooks.go runs its hooks.
//
// To start: start.go defines the plan, planner.go makes it, and launch.go carries it out. kills.go
// stops what the plan stops first.
//
//	  Seen
//	    │   (being deleted: to Stopping; ended, and the runtime idle: to Stopped)
//	    ▼
//	Syncing ────▶ Sync         answered by Synced; again when due or changed
//	    │
//	    │ deleted, ended, removed from the API, killed, ended by itself
//	    ▼
//	Stopping ───▶ Stop{grace}  round 2: containers, then sandboxes; answered by Ended,
//	    │                      again after an error; the grace only shrinks
//	    │ Ended
//	    ▼
//	Stopped ────▶ Clean        volumes, directories, cgroup; answered by Cleaned, again
//	    │                      after an error
//	    │ Cleaned
//	    ▼
//	Confirming ─▶ Confirm      the reporter deletes the object, if it is marked: round 3
//	    │
//	    │ Forget, when the UID has left the API
//	    ▼
//	  Gone
//
// An orphan begins in Stopping, and goes from there to Confirming: it has nothing to report.
package podworker

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// State is the state of a pod's worker. States only move forward (KBL-10).
type State int

// The states, in order.
const (
	// Syncing: the pod is to run.
	Syncing State = iota
	// Stopping: its containers are to stop.
	Stopping
	// Stopped: no container runs; what it used is being cleaned up.
	Stopped
	// Confirming: nothing is left on the node; the API is to forget the object.
	Confirming
	// Gone: the worker is forgotten.
	Gone
)

// String returns the state's name in logs and stories.
func (s State) String() string {
	switch s {
	case Syncing:
		return "Syncing"
	case Stopping:
		return "Stopping"
	case Stopped:
		return "Stopped"
	case Confirming:
		return "Confirming"
	case Gone:
		return "Gone"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Event is something that happened to a pod.
//
//sumtype:decl
type Event interface{ isEvent() }

type (
	// Seen says that the API shows the pod, for the first time or changed.
	Seen struct {
		Pod *corev1.Pod
		// Idle says that the runtime is known to hold nothing alive of the pod.
		Idle bool
	}
	// Removed says that the API no longer has the UID.
	Removed struct{}
	// Kill says that something in the node wants the pod ended (eviction, preemption,
	// shutdown). A nil Grace asks for the pod's own.
	Kill struct {
		Grace *int64
		Cause *Cause
	}
	// Orphan says that only the runtime has the pod. Pod is built from what the runtime knows
	// (KBL-73).
	Orphan struct{ Pod *corev1.Pod }
	// Changed says that a container of the pod started or died.
	Changed struct{}
	// Due says that the time that Again asked for has come, or that housekeeping repeats the last
	// update of a pod that left the API (KBL-21).
	Due struct{}
	// Synced says that a Sync has returned. Ended says that the pod will never run again.
	Synced struct {
		Ended bool
		// After is when to look again, if sooner than the usual resync.
		After time.Duration
		Err   error
	}
	// Ended says that a Stop has returned.
	Ended struct{ Err error }
	// Cleaned says that a Clean has returned.
	Cleaned struct{ Err error }
	// Forget says that housekeeping lets a finished worker go.
	Forget struct{}
)

func (Seen) isEvent()    {}
func (Removed) isEvent() {}
func (Kill) isEvent()    {}
func (Orphan) isEvent()  {}
func (Changed) isEvent() {}
func (Due) isEvent()     {}
func (Synced) isEvent()  {}
func (Ended) isEvent()   {}
func (Cleaned) isEvent() {}
func (Forget) isEvent()  {}

// Cause is why the node itself ends a pod. It becomes the pod's status (KBL-83).
type Cause struct {
	Reason, Message string
	// Disrupts says that the pod did not cause its end; the pod gets the DisruptionTarget
	// condition.
	Disrupts bool
	// Expired says that the pod's activeDeadlineSeconds have passed: it counts as failed from now
	// on.
	Expired bool
}

// Action is something that a machine wants done. Sync, Stop and Clean are answered by Synced, Ended
// and Cleaned; two of them are never under way at once.
//
//sumtype:decl
type Action interface{ isAction() }

type (
	// Sync makes the pod run, or finds that it has ended.
	Sync struct{ Pod *corev1.Pod }
	// Stop ends the pod's containers within Grace seconds, at least 1. Known is false for an
	// orphan, whose status is not reported.
	Stop struct {
		Pod   *corev1.Pod
		Grace int64
		Known bool
	}
	// ReportEnd reports the status of a pod whose containers have stopped.
	ReportEnd struct{ Pod *corev1.Pod }
	// Clean releases what the pod used on the node.
	Clean struct{ Pod *corev1.Pod }
	// Confirm reports the pod finished, which lets the reporter delete the object.
	Confirm struct{ Pod *corev1.Pod }
	// Interrupt cancels the part of a Sync that can be cancelled (KBL-18).
	Interrupt struct{}
	// Again asks for Due: after After if it is positive, else after the usual resync, or the
	// back-off if Failed.
	Again struct {
		After  time.Duration
		Failed bool
	}
)

func (Sync) isAction()      {}
func (Stop) isAction()      {}
func (ReportEnd) isAction() {}
func (Clean) isAction()     {}
func (Confirm) isAction()   {}
func (Interrupt) isAction() {}
func (Again) isAction()     {}

// Machine is the protocol of one pod. It is a value: Step returns the next machine.
type Machine struct {
	state    State
	pod      *corev1.Pod
	grace    int64  // effective grace in seconds, 0 until the stop has begun
	override *int64 // the shortest grace that a Kill asked for
	cause    *Cause
	busy     bool // a Sync, Stop or Clean is out
	pending  bool // something happened meanwhile
	removed  bool // the API has no such UID any more
	orphan   bool // the API never showed it to this kubelet
	restart  bool // the API shows the UID anew while it ends (KBL-14)
}

// State returns the present state.
func (m Machine) State() State { return m.state }

// Pod returns the newest object known; nil before the first event.
func (m Machine) Pod() *corev1.Pod { return m.pod }

// Grace returns the effective grace in seconds; 0 until the stop has begun.
func (m Machine) Grace() int64 { return m.grace }

// Cause returns why the node itself ended the pod; nil for other ends.
func (m Machine) Cause() *Cause { return m.cause }

// Removed reports whether the API no longer has the UID.
func (m Machine) Removed() bool { return m.removed || m.orphan }

// Restart reports whether the UID is to start anew once this worker is forgotten.
func (m Machine) Restart() bool { return m.restart }

// Step returns the machine after e, and the actions to carry out, in order.
func (m Machine) Step(e Event) (Machine, []Action) {
	if m.state == Gone {
		return m, nil
	}
	switch e := e.(type) {
	case Seen:
		return m.handleSeen(e)
	case Removed:
		return m.handleRemoved()
	case Kill:
		return m.handleKill(e)
	case Orphan:
		return m.handleOrphan(e)
	case Changed, Due:
		return m.requestWork()
	case Synced:
		return m.handleSynced(e)
	case Ended:
		return m.handleEnded(e)
	case Cleaned:
		return m.handleCleaned(e)
	case Forget:
		if m.state == Confirming {
			m = m.moveTo(Gone)
		}
	}
	return m, nil
}

func (m Machine) handleSeen(e Seen) (Machine, []Action) {
	if m.orphan || m.state == Confirming {
		m.restart = m.restart || m.orphan || m.removed
		return m, nil
	}
	first := m.pod == nil
	m.restart = m.restart || m.removed
	m.pod = e.Pod
	if first && podstate.IsTerminal(e.Pod) && e.Idle {
		m = m.moveTo(Stopped) // ended before this kubelet began (KBL-12)
		return m.requestWork()
	}
	if m.state == Syncing && (e.Pod.DeletionTimestamp != nil || podstate.IsTerminal(e.Pod)) {
		return m.beginStop()
	}
	return m.shortenGrace()
}

// handleRemoved handles a UID that left the API. That alone begins a stop, and never interrupts a
// stop (KBL-04, KBL-75).
func (m Machine) handleRemoved() (Machine, []Action) {
	m.restart = false
	if m.pod == nil || m.removed {
		return m, nil
	}
	m.removed = true
	if m.state == Syncing {
		return m.beginStop()
	}
	return m.requestWork()
}

func (m Machine) handleKill(e Kill) (Machine, []Action) {
	if m.pod == nil {
		return m, nil
	}
	if e.Grace != nil && (m.override == nil || *e.Grace < *m.override) {
		m.override = e.Grace
	}
	if m.cause == nil && m.state == Syncing {
		m.cause = e.Cause
	}
	if m.state == Syncing {
		return m.beginStop()
	}
	return m.shortenGrace()
}

// handleOrphan begins to stop a pod that only the runtime has, with the shortest grace. If the
// worker has a pod already, it is ignored.
func (m Machine) handleOrphan(e Orphan) (Machine, []Action) {
	if m.pod != nil {
		return m, nil
	}
	m.pod, m.orphan, m.override = e.Pod, true, new(MinimumGrace)
	return m.beginStop()
}

// beginStop begins round 2.
func (m Machine) beginStop() (Machine, []Action) {
	m = m.moveTo(Stopping)
	m.grace, _ = EffectiveGrace(0, m.override, m.pod)
	interrupt := m.busy
	m, actions := m.requestWork()
	if interrupt {
		actions = append([]Action{Interrupt{}}, actions...)
	}
	return m, actions
}

// shortenGrace takes a smaller grace (KBL-16) and requests work again. A running attempt keeps the
// grace that it began with (KBL-18).
func (m Machine) shortenGrace() (Machine, []Action) {
	if m.state == Stopping || m.state == Stopped {
		m.grace, _ = EffectiveGrace(m.grace, m.override, m.pod)
	}
	return m.requestWork()
}

// requestWork returns the action of the present state. If an action is under way, it is requested
// again when that one ends.
func (m Machine) requestWork() (Machine, []Action) {
	if m.pod == nil || m.state >= Confirming {
		return m, nil
	}
	if m.busy {
		m.pending = true
		return m, nil
	}
	m.busy, m.pending = true, false
	switch m.state {
	case Syncing:
		return m, []Action{Sync{m.pod}}
	case Stopping:
		return m, []Action{Stop{m.pod, m.grace, !m.orphan}}
	case Stopped:
		return m, []Action{Clean{m.pod}}
	case Confirming, Gone:
	}
	return m, nil
}

func (m Machine) handleSynced(e Synced) (Machine, []Action) {
	m.busy = false
	switch {
	case m.state != Syncing:
		return m.requestWork()
	case e.Err == nil && e.Ended:
		return m.beginStop()
	case m.pending:
		return m.requestWork()
	}
	return m, []Action{Again{e.After, e.Err != nil}}
}

func (m Machine) handleEnded(e Ended) (Machine, []Action) {
	m.busy = false
	switch {
	case e.Err != nil:
		return m.retry()
	case m.orphan:
		return m.moveTo(Confirming), nil // nothing of it is in the API
	}
	m = m.moveTo(Stopped)
	m, actions := m.requestWork()
	return m, append([]Action{ReportEnd{m.pod}}, actions...)
}

func (m Machine) handleCleaned(e Cleaned) (Machine, []Action) {
	m.busy = false
	if e.Err != nil {
		return m.retry()
	}
	return m.moveTo(Confirming), []Action{Confirm{m.pod}}
}

// retry repeats a failed action: at once if something happened meanwhile, else after the back-off.
// A pod that left the API waits for housekeeping (KBL-21).
func (m Machine) retry() (Machine, []Action) {
	switch {
	case m.pending:
		return m.requestWork()
	case m.Removed():
		return m, nil
	}
	return m, []Action{Again{Failed: true}}
}

// moveTo changes the state. It panics on a move backwards, which is a programming error.
func (m Machine) moveTo(to State) Machine {
	if to < m.state {
		panic(fmt.Sprintf("pod worker moved back from %s to %s", m.state, to))
	}
	m.state = to
	return m
}
