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
const longestWait = int64(100 * 365 * 24 * time.Hour / time.Second)

// StopContainer implements runtimeapi.Containers.
func (s *service) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	s.mu.Lock()
	c, ok := s.containers[id]
	running := ok && isRunning(c.status.State)
	s.mu.Unlock()
	if !running {
		return nil
	}
	timeout := time.Duration(min(max(timeoutSeconds, 0), longestWait)) * time.Second
	return s.climb(ctx, c, timeout)
}

// killContainer returns once c does not run, even if c is being started.
func (s *service) kill(ctx context.Context, c *container) error { return s.climb(ctx, c, 0) }

// runStop runs the steps of one stop call.
func (s *service) climb(ctx context.Context, c *container, timeout time.Duration) error {
	call := stand{timeout: timeout, began: s.clock.Steady()}
	for {
		state := s.look(ctx, c, &call)
		next, until := call.next()
		var err error
		switch next {
		case StepDone:
			return nil
		case StepSignal:
			call.began, err = s.signal(ctx, c)
		case StepWait:
			s.await(ctx, c, state, until)
		case StepKill:
			if timeout > 0 && !runtimeapi.StillWanted(ctx) {
				call.gone = true
				continue
			}
			err, call.killed = s.sendKill(ctx, c), true
		case StepWatch:
			s.await(ctx, c, state, time.Time{})
		case StepHang:
			<-ctx.Done()
		case StepLeave:
			return call.leave(ctx, c)
		}
		if err != nil {
			return err
		}
	}
}

// refreshStop updates what the call knows and returns the container's state.
func (s *service) look(ctx context.Context, c *container, call *stand) proto.ContainerState {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.alive = c.alive()
	call.unreachable = c.status.Unreachable
	call.signaled = c.signaled
	call.gone = call.gone || ctx.Err() != nil
	call.now = s.clock.Steady()
	return c.status.State
}

// abandonedError returns the error of a call that its caller has given up.
func (s stand) leave(ctx context.Context, c *container) error {
	err := ctx.Err()
	if err == nil {
		err = context.Canceled // the connection is gone, the call's context is not
	}
	if s.killed {
		return wrap(err, "an error occurs during waiting for container %q to be killed: wait container %q", c.id, c.id)
	}
	return runtimeapi.Refusal(err)
}

// sendStopSignal sends the stop signal unless another call has sent it. It returns when this call
// begins to wait for the signal to take effect.
func (s *service) signal(ctx context.Context, c *container) (time.Time, error) {
	at := s.clock.Steady()
	s.mu.Lock()
	first := !c.signaled
	c.signaled = true
	s.mu.Unlock()
	if !first {
		return at, nil
	}
	name := engine.StopSignal(c.request)
	err := s.commit(store.PutStop(c.id, at), s.note(c, store.Entry{What: store.Signaled, Signal: name}, at))
	if err != nil {
		s.takeBack(&c.signaled)
		return at, err
	}
	s.mu.Lock()
	c.events.Stop = at
	s.mu.Unlock()
	err = s.send(ctx, c, name, at)
	return s.clock.Steady(), err // to put it on record, and to send it, has taken time that is not the program's
}

// sendKill sends SIGKILL; each call sends it once. Only the first SIGKILL must be on record before
// it is sent.
func (s *service) sendKill(ctx context.Context, c *container) error {
	at := s.clock.Steady()
	s.mu.Lock()
	first, onRecord := !c.killed, !c.events.Kill.IsZero()
	c.killed = true
	s.mu.Unlock()
	noted := s.note(c, store.Entry{What: store.Signaled, Signal: engine.SIGKILL}, at)
	switch {
	case first:
		if err := s.commit(store.PutKill(c.id, at), noted); err != nil {
			s.takeBack(&c.killed)
			return err
		}
		s.mu.Lock()
		c.events.Kill = at
		s.mu.Unlock()
	case onRecord:
		s.store.Later(noted)
	default: // another call is about to
		return nil
	}
	return s.send(ctx, c, engine.SIGKILL, at)
}

// sendSignal logs a signal and sends it.
func (s *service) send(ctx context.Context, c *container, name string, at time.Time) error {
	s.log.InfoContext(ctx, "signal sent", append(s.about(c), "signal", name)...)
	s.history.Note("", history.Signaling{Of: c.of(), Signal: name})
	about := c.named()
	about.Verb = name
	asked := s.clock.Steady()
	if err := s.faults.Pass(ctx, fault.EngineSignal, about); err != nil {
		return err
	}
	at = at.Add(s.clock.Steady().Sub(asked)) // what is delayed arrives late
	if _, lost := s.faults.Find(fault.EngineSignal, about, fault.Drop); lost {
		return nil
	}
	began := s.history.Began()
	if err := s.engines.Signal(ctx, c.id, name, at); err != nil {
		return refuse(proto.CodeUnknown, "failed to send %s to container %q: %v", name, c.id, err)
	}
	s.history.Done(began, "", history.Signal{Of: c.of(), Signal: name})
	return nil
}

// recordExit queues the exit for the next commit.
func (s *service) recordExit(c *container, status engine.Status) {
	exit := store.PutExit(c.id, store.Exit{
		Started: nano(status.StartedAt), Finished: nano(status.FinishedAt),
		Code: status.ExitCode, Reason: status.Reason, Message: status.Message,
	})
	s.store.Later(exit, s.note(c, store.Entry{What: store.Exited, Code: status.ExitCode}, status.FinishedAt))
}

func (s *service) logExit(ctx context.Context, c *container, status engine.Status) {
	s.history.Note("", history.Exit{Of: c.of(), Code: status.ExitCode, Unstarted: status.Reason == engine.ReasonStartError})
	s.log.InfoContext(ctx, "container exited",
		append(s.about(c), "code", status.ExitCode, "reason", status.Reason)...)
}

// historyEntry returns a store operation that adds an entry about c to the runtime's history.
func (s *service) note(c *container, entry store.Entry, at time.Time) store.Op {
	box := c.sandbox.born
	entry.At, entry.Boot = at.UnixNano(), string(s.boot)
	entry.Container, entry.Name = c.id, c.request.Name
	entry.Pod, entry.UID = box.PodNamespace+"/"+box.PodName, box.PodUid
	return store.Note(entry)
}

// historyOf identifies c in history events.
func (c *container) of() history.Of {
	box := c.sandbox.born
	return history.Of{Pod: box.PodNamespace + "/" + box.PodName, UID: box.PodUid, Container: c.id, Called: c.request.Name}
}

// logAttrs returns the attributes that every log line about c has.
func (s *service) about(c *container) []any {
	box := c.sandbox.born
	return []any{
		"container", c.id, "name", c.request.Name, "pod", box.PodNamespace + "/" + box.PodName, "uid", box.PodUid,
	}
}

// isAlive reports whether c runs or is starting. The caller holds the lock.
func (c *container) alive() bool {
	starting := c.status.State == proto.ContainerState_CONTAINER_STATE_CREATED && !c.events.Start.IsZero()
	return starting || isRunning(c.status.State)
}

func isRunning(state proto.ContainerState) bool {
	return state == proto.ContainerState_CONTAINER_STATE_RUNNING || state == proto.ContainerState_CONTAINER_STATE_UNKNOWN
}

func exited(status engine.Status) bool {
	return status.State == proto.ContainerState_CONTAINER_STATE_EXITED
}

// recordedStatus returns the status of a container that has its exit on record.
func statusOf(exit *store.Exit) engine.Status {
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
