// Package probes probes the containers of a node's pods: whether they have started, are ready, and
// live. tracker.go decides what an answer means, and is pure; prober.go runs the probes, and keeps
// the results.
//
//	startup    until it succeeds the other two wait; when it fails the container is killed
//	readiness  whether the container takes requests; continues while the pod is stopped
//	liveness   when it fails the container is killed
package probes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the purpose of a probe.
type Kind int

// The kinds.
const (
	Startup Kind = iota
	Readiness
	Liveness
)

// String returns the kind as upstream's events name it.
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

// Result is the result of a probe.
type Result int

// Results. Unknown is the result of a startup probe that has not finished.
const (
	Unknown Result = iota
	Success
	Failure
)

// initialResult returns the result before the first probe (upstream's newWorker): a container
// counts as live, and as not ready.
func (k Kind) initialResult() Result {
	switch k {
	case Liveness:
		return Success
	case Readiness:
		return Failure
	case Startup:
	}
	return Unknown
}

// Tracker is the state of one container's probe. It is a value: each method returns the next one
// (upstream's prober worker).
type Tracker struct {
	kind Kind
	// container is the id seen last; a new id starts anew.
	container string
	result    Result
	// last is the last outcome, run how often it came in a row.
	last Result
	run  int32
	// onHold means that a failure was reported and the container must be killed.
	onHold bool
}

// NewTracker returns a tracker before its first probe.
func NewTracker(kind Kind) Tracker { return Tracker{kind: kind, result: kind.initialResult()} }

// Result returns the present result.
func (t Tracker) Result() Result { return t.result }

// Container returns the id of the container of that result.
func (t Tracker) Container() string { return t.container }

// Target is the container to probe, as the runtime shows it.
type Target struct {
	ID      string
	Running bool
	Started time.Time
	// Up means that the startup probe has succeeded, or that there is none.
	Up bool
	// Deleted means that the pod is being stopped.
	Deleted bool
}

// Decision says what to do at one tick of a probe.
type Decision int

// Decisions: skip this tick, probe, or never probe again.
const (
	Skip Decision = iota
	Probe
	End
)

// Tick decides what to do with the target now. A container that does not run has failed.
func (t Tracker) Tick(target Target, probe *corev1.Probe, now time.Time) (Tracker, Decision) {
	if target.ID == "" {
		return t, Skip
	}
	if target.ID != t.container {
		t = Tracker{kind: t.kind, container: target.ID, result: t.kind.initialResult()}
	}
	switch {
	case target.Deleted && t.kind != Readiness:
		t.result = Success // a container is not killed twice (KBL-30(2))
		return t, End
	case t.onHold:
		return t, Skip
	case !target.Running:
		t.result = Failure
		return t, Skip
	case now.Sub(target.Started) < time.Duration(probe.InitialDelaySeconds)*time.Second:
		return t, Skip
	case target.Up == (t.kind == Startup): // startup before it is up, the others after
		return t, Skip
	}
	return t, Probe
}

// RecordOutcome takes one outcome. A threshold of 0 counts as its default.
func (t Tracker) RecordOutcome(outcome Result, probe *corev1.Probe) Tracker {
	if outcome == t.last {
		t.run++
	} else {
		t.last, t.run = outcome, 1
	}
	threshold := orDefault(probe.SuccessThreshold, 1)
	if outcome == Failure {
		threshold = orDefault(probe.FailureThreshold, 3)
	}
	if t.run < threshold {
		return t
	}
	t.result = outcome
	if outcome == Failure && t.kind != Readiness {
		t.onHold, t.run = true, 0
	}
	return t
}

// Period returns the time between two ticks.
func Period(probe *corev1.Probe) time.Duration {
	return time.Duration(orDefault(probe.PeriodSeconds, 10)) * time.Second
}

// Timeout returns how long one answer may take.
func Timeout(probe *corev1.Probe) time.Duration {
	return time.Duration(orDefault(probe.TimeoutSeconds, 1)) * time.Second
}

// orDefault returns n, or upstream's default for a field that is not set.
func orDefault(n, otherwise int32) int32 {
	if n <= 0 {
		return otherwise
	}
	return n
}

// ProbeOf returns a container's probe of a kind, or nil.
func ProbeOf(c *corev1.Container, kind Kind) *corev1.Probe {
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
