package simengine

import (
	"fmt"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// Script is how a scripted container behaves. The zero Script runs until it is killed;
// [Default] is what a container without a script does.
type Script struct {
	// StartAfter is how long its start takes; FailsToStart means that it then fails.
	StartAfter   time.Duration
	FailsToStart bool
	// OnTerm is how it ends after the stop signal; nil ignores the signal.
	OnTerm *Exit
	// Own is how it ends by itself, counted from when it began to run; nil never.
	Own *Exit
	// SurvivesKill means that SIGKILL does not end it for KillTakes, or never when
	// that is 0: a process in an uninterruptible wait.
	SurvivesKill bool
	KillTakes    time.Duration
	// StopHangs means that no signal reaches it: the call never returns.
	StopHangs bool
	// Exec is how every command inside it ends, nil for with 0 at once; ExecHangs means
	// that none does.
	Exec      *Exit
	ExecHangs bool
	// AnswersAfter and AnswersUntil bound when it answers over its network, counted from
	// when it began to run; an AnswersUntil of 0 means always.
	AnswersAfter, AnswersUntil time.Duration
}

// Answers reports whether the container answers at now over its network, if it began to
// run at began.
func (s Script) Answers(began, now time.Time) bool {
	if now.Before(began.Add(s.AnswersAfter)) {
		return false
	}
	return s.AnswersUntil == 0 || now.Before(began.Add(s.AnswersUntil))
}

// Exit is an end of a scripted container.
type Exit struct {
	Code   int32
	After  time.Duration
	Reason string
}

// Default is the behaviour of a container without a script.
func Default() Script {
	return Script{OnTerm: &Exit{Code: 0, After: time.Second, Reason: engine.ReasonCompleted}}
}

// At is the status at now of a container to which events have happened. It depends on
// nothing else, which is how a scripted container outlives the runtime that runs it.
// An event on record has happened, whatever now says.
func (s Script) At(events engine.Events, now time.Time) engine.Status {
	status := engine.Status{Unreachable: s.StopHangs}
	if events.Start.IsZero() {
		return status
	}
	now = asOf(events, now)
	began := events.Start.Add(s.StartAfter)
	if s.beforeItRan(events) {
		return failed(status, events.Kill, "killed before it had started", now)
	}
	if s.FailsToStart {
		return failed(status, began, "the script says that it fails to start", now)
	}
	if now.Before(began) {
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_RUNNING
	status.StartedAt = began
	at, exit, ok := s.end(events)
	if !ok || now.Before(at) {
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_EXITED
	status.FinishedAt, status.ExitCode, status.Reason = at, exit.Code, exit.Reason
	return status
}

// Next is the first instant after now at which At changes by itself.
func (s Script) Next(events engine.Events, now time.Time) (at time.Time, ok bool) {
	for _, change := range s.changes(events) {
		if change.After(now) && (!ok || change.Before(at)) {
			at, ok = change, true
		}
	}
	return at, ok
}

// changes are the instants at which At changes, in no order.
func (s Script) changes(events engine.Events) []time.Time {
	if events.Start.IsZero() {
		return nil
	}
	began := events.Start.Add(s.StartAfter)
	switch {
	case s.beforeItRan(events):
		return []time.Time{events.Kill}
	case s.FailsToStart:
		return []time.Time{began}
	}
	if at, _, ok := s.end(events); ok {
		return []time.Time{began, at}
	}
	return []time.Time{began}
}

// beforeItRan reports whether the container was killed while its start was under way.
func (s Script) beforeItRan(events engine.Events) bool {
	return !events.Kill.IsZero() && !s.SurvivesKill && events.Kill.Before(events.Start.Add(s.StartAfter))
}

// failed is the status of a container whose start fails at the given instant.
func failed(status engine.Status, at time.Time, why string, now time.Time) engine.Status {
	if now.Before(at) {
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_EXITED
	status.FinishedAt = at
	status.ExitCode, status.Reason = engine.ExitStartError, engine.ReasonStartError
	status.Message = "failed to start container: " + why
	return status
}

// end is when and how a container that has begun to run ends: by the first of what its
// script and the signals do. Of two at the same instant its own end comes first, then
// the stop signal's.
func (s Script) end(events engine.Events) (at time.Time, exit Exit, ok bool) {
	began := events.Start.Add(s.StartAfter)
	consider := func(from time.Time, candidate Exit) {
		from = latest(from, began).Add(candidate.After)
		if !ok || from.Before(at) {
			at, exit, ok = from, candidate, true
		}
	}
	if s.Own != nil {
		consider(began, *s.Own)
	}
	if s.OnTerm != nil && !events.Stop.IsZero() {
		consider(events.Stop, *s.OnTerm)
	}
	if !events.Kill.IsZero() && (!s.SurvivesKill || s.KillTakes > 0) {
		consider(events.Kill, Exit{Code: engine.ExitKilled, After: s.KillTakes, Reason: engine.ReasonError})
	}
	return at, exit, ok
}

// asOf is now, or the last event when a clock that was set back says that it is still
// to come.
func asOf(events engine.Events, now time.Time) time.Time {
	return latest(latest(now, events.Start), latest(events.Stop, events.Kill))
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// line is something that a scripted container has written.
type line struct {
	at   time.Time
	text string
}

// lines are what the container has written until now.
func (s Script) lines(events engine.Events, now time.Time) []line {
	status := s.At(events, now)
	if status.StartedAt.IsZero() {
		return nil
	}
	lines := []line{{status.StartedAt, "started"}}
	exited := status.State == proto.ContainerState_CONTAINER_STATE_EXITED
	got := latest(events.Stop, status.StartedAt)
	if heard := !exited || !got.After(status.FinishedAt); heard && !events.Stop.IsZero() {
		text := "got TERM"
		if s.OnTerm == nil {
			text = "got TERM, ignored it"
		}
		lines = append(lines, line{got, text})
	}
	killed := !events.Kill.IsZero() && !status.FinishedAt.Before(events.Kill)
	if exited && !killed && status.Reason != engine.ReasonOOMKilled {
		lines = append(lines, line{status.FinishedAt, fmt.Sprintf("exits %d", status.ExitCode)})
	}
	for i := 1; i < len(lines); i++ { // no two have the same time, so that a reader can go on after one
		if before := lines[i-1].at; !lines[i].at.After(before) {
			lines[i].at = before.Add(1)
		}
	}
	return lines
}
