// Package simengine runs scripted containers: no process, only a script that defines how the
// container reacts to its start, to signals and to the passing of time.
//
// A container's behaviour is a pure function of its script, its events and the time (script.go);
// parse.go defines the language. The engine only stores events and wakes up: one goroutine waits
// for the next time at which any container changes. So a container costs no goroutine and no timer,
// and ten thousand containers cost no more than their records.
package simengine

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// Engine runs scripted containers on the cluster's clock.
type Engine struct {
	clock clock.Clock
	wake  chan struct{}

	mu         sync.Mutex
	containers map[string]*container
	alarms     alarms
}

var _ engine.Engine = (*Engine)(nil)

// container is one scripted container. Containers with the same script share it.
type container struct {
	script *Script
	events engine.Events
	// state is the last state that was reported, or returned by Load.
	state proto.ContainerState
}

// New returns an engine without containers.
func New(clk clock.Clock) *Engine {
	return &Engine{clock: clk, wake: make(chan struct{}, 1), containers: map[string]*container{}}
}

// Run implements [engine.Engine].
func (e *Engine) Run(ctx context.Context, report engine.Report) error {
	for {
		next, ok := e.reportDue(report)
		if !ok {
			select {
			case <-e.wake:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		timer := e.clock.Timer(next.Sub(e.clock.Steady()))
		select {
		case <-timer.C:
		case <-e.wake:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// change is one status to report.
type change struct {
	id     string
	status engine.Status
}

// reportDue reports all due changes and returns the time of the next one.
func (e *Engine) reportDue(report engine.Report) (next time.Time, ok bool) {
	for {
		changes, next, ok := e.takeDue(e.clock.Steady())
		for _, c := range changes {
			report(c.id, c.status)
		}
		if len(changes) == 0 {
			return next, ok
		}
	}
}

// batch limits the changes that are collected under the lock at once.
const batch = 256

// takeDue removes up to batch changes that are due at now, and returns them and the time of the
// next one.
func (e *Engine) takeDue(now time.Time) (changes []change, next time.Time, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(changes) < batch {
		alarm, ok := e.alarms.first()
		if !ok || alarm.at.After(now) {
			return changes, alarm.at, ok
		}
		e.alarms.pop()
		c, ok := e.containers[alarm.id]
		if !ok {
			continue // removed meanwhile
		}
		if status := c.script.StatusAt(c.events, alarm.at); status.State > c.state {
			c.state = status.State
			changes = append(changes, change{alarm.id, status})
		}
		e.setAlarm(alarm.id, c, alarm.at)
	}
	return changes, now, true
}

// setAlarm queues the container's next change after the given time.
func (e *Engine) setAlarm(id string, c *container, after time.Time) {
	if c.state == proto.ContainerState_CONTAINER_STATE_EXITED {
		return
	}
	if at, ok := c.script.NextChange(c.events, after); ok {
		e.alarms.push(alarm{at: at, id: id})
	}
}

// Load implements [engine.Engine].
func (e *Engine) Load(_ context.Context, loaded engine.Container) (engine.Status, error) {
	script, err := parseScript(loaded.Request)
	if err != nil {
		return engine.Status{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := notBeforeEvents(loaded.Events, e.clock.Steady())
	status := script.StatusAt(loaded.Events, now)
	c := &container{script: &script, events: loaded.Events, state: status.State}
	e.containers[loaded.ID] = c
	e.setAlarm(loaded.ID, c, now)
	e.wakeRun()
	return status, nil
}

// parseScript returns the script of a container request.
func parseScript(req *proto.CreateContainerRequest) (Script, error) {
	script, err := Parse(req.Script)
	if err != nil {
		return Script{}, fmt.Errorf("container %q: %w", req.Name, err)
	}
	if engine.StopSignal(req) == engine.SIGKILL {
		script.OnTerm = &Exit{Code: engine.ExitKilled, After: script.KillTakes, Reason: engine.ReasonError}
		if script.SurvivesKill && script.KillTakes == 0 {
			script.OnTerm = nil
		}
	}
	return script, nil
}

// Start implements [engine.Engine].
func (e *Engine) Start(_ context.Context, id string, at time.Time) error {
	if !e.recordEvent(id, func(events *engine.Events) *time.Time { return &events.Start }, at) {
		return notLoaded(id)
	}
	return nil
}

// Signal implements [engine.Engine]. For a script, every signal other than SIGKILL is the stop
// signal.
func (e *Engine) Signal(_ context.Context, id, signal string, at time.Time) error {
	e.recordEvent(id, func(events *engine.Events) *time.Time {
		if signal == engine.SIGKILL {
			return &events.Kill
		}
		return &events.Stop
	}, at)
	return nil
}

// recordEvent sets an event's time unless it is set already. It reports whether the container is
// loaded.
func (e *Engine) recordEvent(id string, event func(*engine.Events) *time.Time, at time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return false
	}
	if when := event(&c.events); when.IsZero() {
		*when = at
		e.alarms.push(alarm{at: at, id: id})
		e.wakeRun()
	}
	return true
}

// wakeRun wakes Run after an alarm was queued.
func (e *Engine) wakeRun() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Logs implements [engine.Engine]. The lines follow from the script and the events, so nothing is
// stored: one line each for the start, the stop signal and the exit.
func (e *Engine) Logs(_ context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	e.mu.Lock()
	c, ok := e.containers[req.ContainerId]
	if !ok {
		e.mu.Unlock()
		return nil, notLoaded(req.ContainerId)
	}
	lines := c.script.logLines(c.events, e.clock.Steady())
	e.mu.Unlock()

	since := time.Unix(0, req.SinceUnixNano)
	for len(lines) > 0 && lines[0].at.Before(since) {
		lines = lines[1:]
	}
	if tail := req.TailLines; tail > 0 && int64(len(lines)) > tail {
		lines = lines[int64(len(lines))-tail:]
	}
	var log bytes.Buffer
	for _, line := range lines {
		if req.Timestamps {
			fmt.Fprintf(&log, "%s ", line.at.UTC().Format(time.RFC3339Nano))
		}
		fmt.Fprintln(&log, line.text)
	}
	return log.Bytes(), nil
}

// Remove implements [engine.Engine].
func (e *Engine) Remove(_ context.Context, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.containers, id)
}

func notLoaded(id string) error { return fmt.Errorf("container %q is not loaded", id) }
