package runtime

import (
	"context"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/store"
)

// maxTimeoutSeconds caps a timeout at 100 years.
const maxTimeoutSeconds = int64(100 * 365 * 24 * time.Hour / time.Second)

// StopContainer implements runtimeapi.Containers.
func (s *service) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	s.mu.Lock()
	c, ok := s.containers[id]
	running := ok && isRunning(c.status.State)
	s.mu.Unlock()
	if !running {
		return nil
	}
	timeout := time.Duration(min(max(timeoutSeconds, 0), maxTimeoutSeconds)) * time.Second
	return s.runStop(ctx, c, timeout)
}

// killContainer returns once c does not run, even if c is being started.
func (s *service) killContainer(ctx context.Context, c *container) error { return s.runStop(ctx, c, 0) }

// runStop runs the steps of one stop call.
func (s *service) runStop(ctx context.Context, c *container, timeout time.Duration) error {
	call := stopState{timeout: timeout, began: s.clock.Steady()}
	for {
		state := s.refreshStop(ctx, c, &call)
		next, until := call.next()
		var err error
		switch next {
		case StepDone:
			return nil
		case StepSignal:
			call.began, err = s.sendStopSignal(ctx, c)
		case StepWait:
			s.awaitChange(ctx, c, state, until)
		case StepKill:
			if timeout > 0 && !runtimeapi.IsCallerWaiting(ctx) {
				call.gone = true
				continue
			}
			err, call.killed = s.sendKill(ctx, c), true
		case StepWatch:
			s.awaitChange(ctx, c, state, time.Time{})
		case StepHang:
			<-ctx.Done()
		case StepLeave:
			return call.abandonedError(ctx, c)
		}
		if err != nil {
			return err
		}
	}
}

// refreshStop updates what the call knows and returns the container's state.
func (s *service) refreshStop(ctx context.Context, c *container, call *stopState) proto.ContainerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.alive = c.isAlive()
	call.unreachable = c.status.Unreachable
	call.signaled = c.signaled
	call.gone = call.gone || ctx.Err() != nil
	call.now = s.clock.Steady()
	return c.status.State
}

// abandonedError returns the error of a call that its caller has given up.
func (s stopState) abandonedError(ctx context.Context, c *container) error {
	err := ctx.Err()
	if err == nil {
		err = context.Canceled // the connection is closed, but the context has not ended
	}
	if s.killed {
		return wrapError(err, "an error occurs during waiting for container %q to be killed: wait container %q", c.id, c.id)
	}
	return runtimeapi.ToRuntimeError(err)
}

// sendStopSignal sends the stop signal unless another call has sent it. It returns when this call
// begins to wait for the signal to take effect.
func (s *service) sendStopSignal(ctx context.Context, c *container) (time.Time, error) {
	at := s.clock.Steady()
	s.mu.Lock()
	first := !c.signaled
	c.signaled = true
	s.mu.Unlock()
	if !first {
		return at, nil
	}
	name := engine.StopSignal(c.request)
	err := s.commit(store.PutStop(c.id, at), s.historyEntry(c, store.Entry{What: store.Signaled, Signal: name}, at))
	if err != nil {
		s.releaseClaim(&c.signaled)
		return at, err
	}
	s.mu.Lock()
	c.events.Stop = at
	s.mu.Unlock()
	err = s.sendSignal(ctx, c, name, at)
	return s.clock.Steady(), err // recording and sending took time that does not count as grace
}

// sendKill sends SIGKILL; each call sends it once. Only the first SIGKILL must be on record before
// it is sent.
func (s *service) sendKill(ctx context.Context, c *container) error {
	at := s.clock.Steady()
	s.mu.Lock()
	first, onRecord := !c.killed, !c.events.Kill.IsZero()
	c.killed = true
	s.mu.Unlock()
	noted := s.historyEntry(c, store.Entry{What: store.Signaled, Signal: engine.SIGKILL}, at)
	switch {
	case first:
		if err := s.commit(store.PutKill(c.id, at), noted); err != nil {
			s.releaseClaim(&c.killed)
			return err
		}
		s.mu.Lock()
		c.events.Kill = at
		s.mu.Unlock()
	case onRecord:
		s.store.Later(noted)
	default: // another call is about to send it
		return nil
	}
	return s.sendSignal(ctx, c, engine.SIGKILL, at)
}

// sendSignal logs a signal and sends it.
func (s *service) sendSignal(ctx context.Context, c *container, name string, at time.Time) error {
	s.log.InfoContext(ctx, "signal sent", append(s.logAttrs(c), "signal", name)...)
	s.history.Record("", history.Signaling{ContainerRef: c.historyOf(), Signal: name})
	about := c.faultTarget()
	about.Verb = name
	requested := s.clock.Steady()
	if err := s.faults.Inject(ctx, fault.EngineSignal, about); err != nil {
		return err
	}
	at = at.Add(s.clock.Steady().Sub(requested)) // a delayed signal arrives late
	if _, lost := s.faults.FindEffect(fault.EngineSignal, about, fault.Drop); lost {
		return nil
	}
	began := s.history.Now()
	if err := s.engines.Signal(ctx, c.id, name, at); err != nil {
		return errorf(proto.CodeUnknown, "failed to send %s to container %q: %v", name, c.id, err)
	}
	s.history.RecordSince(began, "", history.Signal{ContainerRef: c.historyOf(), Signal: name})
	return nil
}

// recordExit queues the exit for the next commit.
func (s *service) recordExit(c *container, status engine.Status) {
	exit := store.PutExit(c.id, store.Exit{
		Started: unixNano(status.StartedAt), Finished: unixNano(status.FinishedAt),
		Code: status.ExitCode, Reason: status.Reason, Message: status.Message,
	})
	s.store.Later(exit, s.historyEntry(c, store.Entry{What: store.Exited, Code: status.ExitCode}, status.FinishedAt))
}

func (s *service) logExit(ctx context.Context, c *container, status engine.Status) {
	s.history.Record("", history.Exit{ContainerRef: c.historyOf(), Code: status.ExitCode, Unstarted: status.Reason == engine.ReasonStartError})
	s.log.InfoContext(ctx, "container exited",
		append(s.logAttrs(c), "code", status.ExitCode, "reason", status.Reason)...)
}

// historyEntry returns a store operation that adds an entry about c to the runtime's history.
func (s *service) historyEntry(c *container, entry store.Entry, at time.Time) store.Op {
	box := c.sandbox.created
	entry.At, entry.Boot = at.UnixNano(), string(s.boot)
	entry.Container, entry.Name = c.id, c.request.Name
	entry.Pod, entry.UID = box.PodNamespace+"/"+box.PodName, box.PodUid
	return store.Note(entry)
}

// historyOf identifies c in history events.
func (c *container) historyOf() history.ContainerRef {
	box := c.sandbox.created
	return history.ContainerRef{Pod: box.PodNamespace + "/" + box.PodName, UID: box.PodUid, Container: c.id, ContainerName: c.request.Name}
}

// logAttrs returns the attributes that every log line about c has.
func (s *service) logAttrs(c *container) []any {
	box := c.sandbox.created
	return []any{
		"container", c.id, "name", c.request.Name, "pod", box.PodNamespace + "/" + box.PodName, "uid", box.PodUid,
	}
}

// isAlive reports whether c runs or is starting. The caller holds the lock.
func (c *container) isAlive() bool {
	starting := c.status.State == proto.ContainerState_CONTAINER_STATE_CREATED && !c.events.Start.IsZero()
	return starting || isRunning(c.status.State)
}

func isRunning(state proto.ContainerState) bool {
	return state == proto.ContainerState_CONTAINER_STATE_RUNNING || state == proto.ContainerState_CONTAINER_STATE_UNKNOWN
}

func hasExited(status engine.Status) bool {
	return status.State == proto.ContainerState_CONTAINER_STATE_EXITED
}

// recordedStatus returns the status of a container that has its exit on record.
func recordedStatus(exit *store.Exit) engine.Status {
	status := engine.Status{
		State:      proto.ContainerState_CONTAINER_STATE_EXITED,
		FinishedAt: time.Unix(0, exit.Finished),
		ExitCode:   exit.Code, Reason: exit.Reason, Message: exit.Message,
	}
	if exit.Started != 0 {
		status.StartedAt = time.Unix(0, exit.Started)
	}
	return status
}
