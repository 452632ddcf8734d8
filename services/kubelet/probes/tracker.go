// Package probes asks the containers of a node's pods how they are: whether they have
// started, are ready, and live. What an answer means is decided in tracker.go, which is
// pure; prober.go asks, and keeps what was found.
//
//	startup    until it succeeds the other two wait; when it fails the container is killed
//	readiness  whether the container takes requests; goes on while the pod is stopped
//	liveness   when it fails the container is killed
package probes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is what a probe is for.
type Kind int

// The kinds.
const (
	Startup Kind = iota
	Readiness
	Liveness
)

// String is the kind as upstream's events name it.
func (k Kind) String() string {
	switch k {
	case Startup:
		return "Startup"
	case Readiness:
		return "Readiness"
	case Liveness:
		return "Liveness"
	}
	return ""
}

// Result is what a probe has found.
type Result int

// The results. Unknown is only a startup probe's, before it has found anything.
const (
	Unknown Result = iota
	Success
	Failure
)

// initial is the result for a container of which nothing is known (upstream's
// newWorker): it lives until it is found not to, and is not ready until it is found to
// be.
func (k Kind) initial() Result {
	switch k {
	case Liveness:
		return Success
	case Readiness:
		return Failure
	case Startup:
	}
	return Unknown
}

// Tracker is what a probe knows of one container. It is a value: each method returns the
// next one (upstream's prober worker).
type Tracker struct {
	kind Kind
	// container is the id that was seen last; each new one begins anew.
	container string
	result    Result
	// last and run are the last outcome, and how often it has come in a row.
	last Result
	run  int32
	// held means that a failure was told and the container is to be killed.
	held bool
}

// NewTracker knows nothing yet.
func NewTracker(kind Kind) Tracker { return Tracker{kind: kind, result: kind.initial()} }

// Result is what is known now.
func (t Tracker) Result() Result { return t.result }

// Container is the container of which that is known.
func (t Tracker) Container() string { return t.container }

// Target is the container that is to be probed, as the runtime shows it.
type Target struct {
	ID      string
	Running bool
	Started time.Time
	// Up means that the startup probe has succeeded, or that there is none.
	Up bool
	// Deleted means that the pod is being stopped.
	Deleted bool
}

// Decision is what to do at one tick of a probe.
type Decision int

// The decisions: leave it for this tick, ask, or never ask again.
const (
	Leave Decision = iota
	Ask
	End
)

// Tick decides what to do about the target now. A container that does not run has failed.
func (t Tracker) Tick(target Target, probe *corev1.Probe, now time.Time) (Tracker, Decision) {
	if target.ID == "" {
		return t, Leave
	}
	if target.ID != t.container {
		t = Tracker{kind: t.kind, container: target.ID, result: t.kind.initial()}
	}
	switch {
	case target.Deleted && t.kind != Readiness:
		t.result = Success // nobody is killed twice (KBL-30(2))
		return t, End
	case t.held:
		return t, Leave
	case !target.Running:
		t.result = Failure
		return t, Leave
	case now.Sub(target.Started) < time.Duration(probe.InitialDelaySeconds)*time.Second:
		return t, Leave
	case target.Up == (t.kind == Startup): // startup before it is up, the others after
		return t, Leave
	}
	return t, Ask
}

// Answer takes in one outcome. A threshold of 0 counts as its default.
func (t Tracker) Answer(outcome Result, probe *corev1.Probe) Tracker {
	if outcome == t.last {
		t.run++
	} else {
		t.last, t.run = outcome, 1
	}
	threshold := or(probe.SuccessThreshold, 1)
	if outcome == Failure {
		threshold = or(probe.FailureThreshold, 3)
	}
	if t.run < threshold {
		return t
	}
	t.result = outcome
	if outcome == Failure && t.kind != Readiness {
		t.held, t.run = true, 0
	}
	return t
}

// Period is between two ticks.
func Period(probe *corev1.Probe) time.Duration {
	return time.Duration(or(probe.PeriodSeconds, 10)) * time.Second
}

// Timeout is how long one answer may take.
func Timeout(probe *corev1.Probe) time.Duration {
	return time.Duration(or(probe.TimeoutSeconds, 1)) * time.Second
}

// or is n, or what upstream fills in for a field that nobody has set.
func or(n, otherwise int32) int32 {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Of is a container's probe of a kind; nil if it has none.
func Of(c *corev1.Container, kind Kind) *corev1.Probe {
	switch kind {
	case Startup:
		return c.StartupProbe
	case Readiness:
		return c.ReadinessProbe
	case Liveness:
		return c.LivenessProbe
	}
	return nil
}
