package simengine

import (
	"fmt"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// Script describes how a scripted container behaves. The zero Script runs until it is killed. A
// container without a script uses [Default].
type Script struct {
	// StartAfter is how long a start takes. If FailsToStart is set, the start then fails.
	StartAfter   time.Duration
	FailsToStart bool
	// OnTerm is the exit after the stop signal; nil ignores the signal.
	OnTerm *Exit
	// OwnExit is the exit without a signal, counted from the start of running; nil means never.
	OwnExit *Exit
	// SurvivesKill means that SIGKILL ends the container only after KillTakes, or never if
	// KillTakes is 0: a process in an uninterruptible wait.
	SurvivesKill bool
	KillTakes    time.Duration
	// StopHangs means that no signal reaches the container and a stop never returns.
	StopHangs bool
	// Exec is the exit of every command inside the container; nil exits 0 at once. If ExecHangs is
	// set, no command ends.
	Exec      *Exit
	ExecHangs bool
	// AnswersAfter and AnswersUntil bound when the container answers over its network, counted from
	// the start of running. A zero AnswersUntil means always.
	AnswersAfter, AnswersUntil time.Duration
}

// Answers reports whether a container that runs since began answers over its network at now.
func (s Script) Answers(began, now time.Time) bool {
	if now.Before(began.Add(s.AnswersAfter)) {
		return false
	}
	return s.AnswersUntil == 0 || now.Before(began.Add(s.AnswersUntil))
}

// Exit is how a scripted container ends.
type Exit struct {
	Code   int32
	After  time.Duration
	Reason string
}

// Default returns the script of containers without a script.
func Default() Script {
	return Script{OnTerm: &Exit{Code: 0, After: time.Second, Reason: engine.ReasonCompleted}}
}

// StatusAt returns the status at now of a container with the given events. It depends on nothing
// else, so a scripted container outlives its runtime. A recorded event has happened, even if now is
// earlier.
func (s Script) StatusAt(events engine.Events, now time.Time) engine.Status {
	status := engine.Status{Unreachable: s.StopHangs}
	if events.Start.IsZero() {
		return status
	}
	now = notBeforeEvents(events, now)
	began := events.Start.Add(s.StartAfter)
	if s.killedBeforeRunning(events) {
		return failedStart(status, events.Kill, "killed before it had started", now)
	}
	if s.FailsToStart {
		return failedStart(status, began, "the script says that it fails to start", now)
	}
	if now.Before(began) {
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_RUNNING
	status.StartedAt = began
	at, exit, ok := s.firstEnd(events)
	if !ok || now.Before(at) {
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_EXITED
	status.FinishedAt, status.ExitCode, status.Reason = at, exit.Code, exit.Reason
	return status
}

// NextChange returns the first time after now at which StatusAt changes by itself.
func (s Script) NextChange(events engine.Events, now time.Time) (at time.Time, ok bool) {
	for _, change := range s.changeTimes(events) {
		if change.After(now) && (!ok || change.Before(at)) {
			at, ok = change, true
		}
	}
	return at, ok
}

// changeTimes returns the times at which StatusAt changes, unsorted.
func (s Script) changeTimes(events engine.Events) []time.Time {
	if events.Start.IsZero() {
		return nil
	}
	began := events.Start.Add(s.StartAfter)
	switch {
	case s.killedBeforeRunning(events):
		return []time.Time{events.Kill}
	case s.FailsToStart:
		return []time.Time{began}
	}
	if at, _, ok := s.firstEnd(events); ok {
		return []time.Time{began, at}
	}
	return []time.Time{began}
}

// killedBeforeRunning reports whether the container was killed during its start.
func (s Script) killedBeforeRunning(events engine.Events) bool {
	return !events.Kill.IsZero() && !s.SurvivesKill && events.Kill.Before(events.Start.Add(s.StartAfter))
}

// failedStart returns the status of a container whose start fails at the given time.
func failedStart(status engine.Status, at time.Time, why string, now time.Time) engine.Status {
	if now.Before(at) {
		return status
	}
	status.State = proto.ContainerState_CONTAINER_STATE_EXITED
	status.FinishedAt = at
	status.ExitCode, status.Reason = engine.ExitStartError, engine.ReasonStartError
	status.Message = "failed to start container: " + why
	return status
}

// firstEnd returns when and how a running container ends: by its script or by a signal, whichever
// comes first. At the same time, its own exit wins, then the stop signal.
func (s Script) firstEnd(events engine.Events) (at time.Time, exit Exit, ok bool) {
	began := events.Start.Add(s.StartAfter)
	consider := func(from time.Time, candidate Exit) {
		from = latest(from, began).Add(candidate.After)
		if !ok || from.Before(at) {
			at, exit, ok = from, candidate, true
		}
	}
	if s.OwnExit != nil {
		consider(began, *s.OwnExit)
	}
	if s.OnTerm != nil && !events.Stop.IsZero() {
		consider(events.Stop, *s.OnTerm)
	}
	if !events.Kill.IsZero() && (!s.SurvivesKill || s.KillTakes > 0) {
		consider(events.Kill, Exit{Code: engine.ExitKilled, After: s.KillTakes, Reason: engine.ReasonError})
	}
	return at, exit, ok
}

// notBeforeEvents returns now, or the time of the last event if the clock was set back before it.
func notBeforeEvents(events engine.Events, now time.Time) time.Time {
	return latest(latest(now, events.Start), latest(events.Stop, events.Kill))
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// logLine is one line that a scripted container has written.
type logLine struct {
	at   time.Time
	text string
}

// logLines returns what the container has written until now.
func (s Script) logLines(events engine.Events, now time.Time) []logLine {
	status := s.StatusAt(events, now)
	if status.StartedAt.IsZero() {
		return nil
	}
	lines := []logLine{{status.StartedAt, "started"}}
	exited := status.State == proto.ContainerState_CONTAINER_STATE_EXITED
	got := latest(events.Stop, status.StartedAt)
	if heard := !exited || !got.After(status.FinishedAt); heard && !events.Stop.IsZero() {
		text := "got TERM"
		if s.OnTerm == nil {
			text = "got TERM, ignored it"
		}
		lines = append(lines, logLine{got, text})
	}
	killed := !events.Kill.IsZero() && !status.FinishedAt.Before(events.Kill)
	if exited && !killed && status.Reason != engine.ReasonOOMKilled {
		lines = append(lines, logLine{status.FinishedAt, fmt.Sprintf("exits %d", status.ExitCode)})
	}
	for i := 1; i < len(lines); i++ { // times are unique, so that a reader can continue after one
		if before := lines[i-1].at; !lines[i].at.After(before) {
			lines[i].at = before.Add(1)
		}
	}
	return lines
}
