// Package podworker carries the pods of one node through their lives, a worker for each
// UID. This file is the protocol of one pod, pure; grace.go says how long a stop may
// take; attempt.go is the order of one attempt to stop, pure too, and round2_stop.go
// carries it out; start.go and launch.go make a pod run; worker.go is the shell around
// the machine and workers.go keeps all of a node's.
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
//	Confirming ─▶ Confirm      the reporter deletes the object: round 3
//	    │
//	    │ Forget, when the UID has left the API
//	    ▼
//	  Gone
package podworker

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// State is where a pod's worker is. States only move forward (KBL-10).
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

// String is the state's name in logs and stories.
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

// Event is what can happen to a machine.
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
	// Orphan says that only the runtime has the pod; Pod is made from what it tells
	// (KBL-73).
	Orphan struct{ Pod *corev1.Pod }
	// Changed says that the runtime shows a container started or died.
	Changed struct{}
	// Due says that what Again asked for is due, or that housekeeping repeats the
	// last update of a pod that the API no longer has (KBL-21).
	Due struct{}
	// Synced says that a Sync has returned; with Ended, that the pod will never run
	// again.
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

// Cause is why the node itself ends a pod; it becomes the pod's status (KBL-83).
type Cause struct {
	Reason, Message string
	// Disrupts says that the end is none of the pod's own, which a condition of it tells.
	Disrupts bool
	// Expired says that the pod has outlived its own deadline: it counts as failed from now on.
	Expired bool
}

// Action is what a machine wants done. Sync, Stop and Clean are answered by Synced,
// Ended and Cleaned; never are two of them out at once.
//
//sumtype:decl
type Action interface{ isAction() }

type (
	// Sync makes the pod run, or finds that it has ended.
	Sync struct{ Pod *corev1.Pod }
	// Stop ends the pod's containers within Grace seconds, which is at least 1. Known
	// is false for an orphan of the runtime, whose status nobody reports.
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
	// Interrupt cancels what of a Sync can be cancelled (KBL-18).
	Interrupt struct{}
	// Again asks for Due: After that long if it is positive, else after the usual
	// resync, or the back-off when Failed.
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

// Machine is the protocol of one pod. It is a value: Step returns the next one.
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

// State is where the machine is.
func (m Machine) State() State { return m.state }

// Pod is the newest object known; nil before the first event.
func (m Machine) Pod() *corev1.Pod { return m.pod }

// Grace is the effective grace in seconds; 0 until the stop has begun.
func (m Machine) Grace() int64 { return m.grace }

// Cause is why the node ended the pod itself; nil for other ends.
func (m Machine) Cause() *Cause { return m.cause }

// Removed reports whether the API no longer has the UID.
func (m Machine) Removed() bool { return m.removed || m.orphan }

// Restart reports whether the UID is to start anew once this worker is forgotten.
func (m Machine) Restart() bool { return m.restart }

// Step is the machine after e, and what it wants done, in order.
func (m Machine) Step(e Event) (Machine, []Action) {
	if m.state == Gone {
		return m, nil
	}
	switch e := e.(type) {
	case Seen:
		return m.seen(e)
	case Removed:
		return m.gone()
	case Kill:
		return m.kill(e)
	case Orphan:
		return m.orphaned(e)
	case Changed, Due:
		return m.run()
	case Synced:
		return m.synced(e)
	case Ended:
		return m.ended(e)
	case Cleaned:
		return m.cleaned(e)
	case Forget:
		if m.state == Confirming {
			m = m.advance(Gone)
		}
	}
	return m, nil
}

func (m Machine) seen(e Seen) (Machine, []Action) {
	if m.orphan || m.state == Confirming {
		m.restart = m.restart || m.orphan || m.removed
		return m, nil
	}
	first := m.pod == nil
	m.restart = m.restart || m.removed
	m.pod = e.Pod
	if first && podstate.Terminal(e.Pod) && e.Idle {
		m = m.advance(Stopped) // ended before this kubelet began (KBL-12)
		return m.run()
	}
	if m.state == Syncing && (e.Pod.DeletionTimestamp != nil || podstate.Terminal(e.Pod)) {
		return m.stop()
	}
	return m.shorten()
}

// gone handles a UID that left the API: that alone begins a stop, and interrupts none
// (KBL-04, KBL-75).
func (m Machine) gone() (Machine, []Action) {
	m.restart = false
	if m.pod == nil || m.removed {
		return m, nil
	}
	m.removed = true
	if m.state == Syncing {
		return m.stop()
	}
	return m.run()
}

func (m Machine) kill(e Kill) (Machine, []Action) {
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
		return m.stop()
	}
	return m.shorten()
}

// orphaned begins the stop of a pod that only the runtime has, with the shortest grace.
// A worker that has a pod already knows better.
func (m Machine) orphaned(e Orphan) (Machine, []Action) {
	if m.pod != nil {
		return m, nil
	}
	m.pod, m.orphan, m.override = e.Pod, true, new(MinimumGrace)
	return m.stop()
}

// stop begins round 2.
func (m Machine) stop() (Machine, []Action) {
	m = m.advance(Stopping)
	m.grace, _ = EffectiveGrace(0, m.override, m.pod)
	interrupt := m.busy
	m, actions := m.run()
	if interrupt {
		actions = append([]Action{Interrupt{}}, actions...)
	}
	return m, actions
}

// shorten takes up a smaller grace (KBL-16) and runs again. An attempt that is under
// way goes on with what it began with (KBL-18).
func (m Machine) shorten() (Machine, []Action) {
	if m.state == Stopping || m.state == Stopped {
		m.grace, _ = EffectiveGrace(m.grace, m.override, m.pod)
	}
	return m.run()
}

// run asks for the work of the present state, or notes that it has to be asked for.
func (m Machine) run() (Machine, []Action) {
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

func (m Machine) synced(e Synced) (Machine, []Action) {
	m.busy = false
	switch {
	case m.state != Syncing:
		return m.run()
	case e.Err == nil && e.Ended:
		return m.stop()
	case m.pending:
		return m.run()
	}
	return m, []Action{Again{e.After, e.Err != nil}}
}

func (m Machine) ended(e Ended) (Machine, []Action) {
	m.busy = false
	switch {
	case e.Err != nil:
		return m.failed()
	case m.orphan:
		return m.advance(Confirming), nil // nothing of it is in the API
	}
	m = m.advance(Stopped)
	m, actions := m.run()
	return m, append([]Action{ReportEnd{m.pod}}, actions...)
}

func (m Machine) cleaned(e Cleaned) (Machine, []Action) {
	m.busy = false
	if e.Err != nil {
		return m.failed()
	}
	return m.advance(Confirming), []Action{Confirm{m.pod}}
}

// failed tries again: at once if something happened meanwhile, else after the back-off;
// a pod that the API no longer has waits for housekeeping (KBL-21).
func (m Machine) failed() (Machine, []Action) {
	switch {
	case m.pending:
		return m.run()
	case m.Removed():
		return m, nil
	}
	return m, []Action{Again{Failed: true}}
}

// advance moves forward; to move back is a programmer's error.
func (m Machine) advance(to State) Machine {
	if to < m.state {
		panic(fmt.Sprintf("pod worker moved back from %s to %s", m.state, to))
	}
	m.state = to
	return m
}
