package sim

import (
	"slices"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/engine"
)

// callKind is what a call under way waits for, and does then.
type callKind int

const (
	// callStart waits for the container to run.
	callStart callKind = iota
	// callStop ends a container within its timeout.
	callStop
	// callRemove kills a container and forgets it.
	callRemove
	// callStopBox kills the containers of a sandbox one after the other, and marks it.
	callStopBox
	// callRemoveBox does so, and forgets them all.
	callRemoveBox
	// callExec waits for a command to end.
	callExec
	// callCleanUp kills what a crash of the runtime has left in a stopped sandbox.
	callCleanUp
)

// pendingCall is a call under way.
type pendingCall struct {
	kind  callKind
	call  CallID
	boot  proto.Boot
	until time.Time

	container *container
	box       *box
	// kills are the containers to stop, the first now; stop is the state of its stop.
	kills   []*container
	stop    *runtime.StopCall
	timeout time.Duration
	// ends and code are a command's; no time means never.
	ends time.Time
	code int32
}

// proceedAll takes every call as far as possible.
func (r *runtimeProcess) proceedAll(now time.Time, out Out) {
	for again := true; again; {
		again = r.refresh(now, out)
		for _, call := range slices.Clone(r.calls) {
			again = r.proceed(now, call, out) || again
		}
	}
	var next time.Time
	for _, call := range r.calls {
		if at := call.due(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	out.Wake(waitAlarm, next)
}

// due returns when a call goes on by itself; zero for never.
func (c *pendingCall) due(now time.Time) time.Time {
	at := c.until
	if c.kind == callExec && !c.ends.IsZero() && c.ends.Before(at) {
		at = c.ends
	}
	if c.stop != nil && c.stop.Timeout > 0 && !c.stop.Killed {
		if kill := c.stop.Began.Add(c.stop.Timeout); kill.After(now) && (at.IsZero() || kill.Before(at)) {
			at = kill
		}
	}
	return at
}

// proceed takes one step of a call, and reports whether it did.
func (r *runtimeProcess) proceed(now time.Time, call *pendingCall, out Out) bool {
	if !slices.Contains(r.calls, call) {
		return false
	}
	gone := call.kind != callCleanUp && !now.Before(call.until)
	if gone && call.kind != callStart {
		r.end(call, RuntimeResponse{Err: refuse(proto.CodeDeadlineExceeded, "context deadline exceeded")}, out)
		return true
	}
	switch call.kind {
	case callStart:
		if r.pending(call.container) || call.container.status.State == proto.ContainerState_CONTAINER_STATE_CREATED && !gone {
			return false
		}
		r.end(call, startAnswer(call.container), out)
		if call.container.box.checkReady() != nil && call.container.alive() { // stopped in between
			r.calls = append(r.calls, &pendingCall{kind: callCleanUp, kills: []*container{call.container}})
		}
		return true
	case callExec:
		over := call.container.status.State == proto.ContainerState_CONTAINER_STATE_EXITED
		if !over && (call.ends.IsZero() || now.Before(call.ends)) {
			return false
		}
		code := call.code
		if over && call.ends.IsZero() {
			code = engine.ExitKilled
		}
		r.end(call, RuntimeResponse{Body: code}, out)
		return true
	case callStop, callRemove, callStopBox, callRemoveBox, callCleanUp:
	}
	if len(call.kills) > 0 {
		return r.stepStop(now, call, out)
	}
	r.finish(call, out)
	return true
}

// finish does what a call does once nothing runs any more.
func (r *runtimeProcess) finish(call *pendingCall, out Out) {
	switch call.kind {
	case callRemove:
		r.forget(call.container, out)
	case callStopBox:
		r.markStopped(call.box, out)
	case callRemoveBox:
		r.markStopped(call.box, out)
		r.removeBox(call.box, out)
	case callStart, callStop, callExec, callCleanUp:
	}
	r.end(call, RuntimeResponse{}, out)
}

func (r *runtimeProcess) end(call *pendingCall, answer RuntimeResponse, out Out) {
	r.calls = slices.DeleteFunc(r.calls, func(other *pendingCall) bool { return other == call })
	if call.kind != callCleanUp {
		out.Answer(call.call, answer, nil)
	}
}

// stepStop takes the next step of stopping the first container.
func (r *runtimeProcess) stepStop(now time.Time, call *pendingCall, out Out) bool {
	c := call.kills[0]
	if r.pending(c) {
		return false
	}
	if call.stop == nil {
		call.stop = &runtime.StopCall{Timeout: call.timeout, Began: now}
	}
	if call.timeout > 0 && call.boot != r.kernel.kubelet {
		call.stop.Gone = true // nobody waits for it any more (CRI-07)
	}
	next, _ := call.stop.Next(runtime.StopTarget{Alive: c.alive(), Unreachable: c.status.Unreachable, Signaled: c.signaled}, now)
	switch next {
	case runtime.StepDone:
		call.kills, call.stop = call.kills[1:], nil
	case runtime.StepSignal:
		c.signaled = true
		c.Events.Stop, call.stop.Began = now, now
		r.queueEffect(now, c, engine.StopSignal(c.Request), out)
	case runtime.StepKill:
		call.stop.Killed = true
		if !c.killed {
			c.killed, c.Events.Kill = true, now
		}
		r.queueEffect(now, c, engine.SIGKILL, out)
	case runtime.StepLeave:
		r.end(call, RuntimeResponse{Err: refuse(proto.CodeCanceled, "the caller has left")}, out)
	case runtime.StepWait, runtime.StepWatch, runtime.StepHang:
		return false
	}
	return true
}
