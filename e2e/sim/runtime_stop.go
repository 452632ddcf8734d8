package sim

import (
	"slices"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/engine"
)

// callKind is what a call that is under way waits for, and does then.
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
	// callSettle kills what a crash of the runtime has left in a stopped sandbox.
	callSettle
)

// calling is a call that is under way.
type calling struct {
	kind  callKind
	call  CallID
	boot  proto.Boot
	until time.Time

	container *held
	box       *box
	// kills are the containers that are to end, the first at once; climb is about it.
	kills   []*held
	climb   *runtime.StopCall
	timeout time.Duration
	// ends and code are a command's; no time means never.
	ends time.Time
	code int32
}

// climb goes on with every call as far as it can.
func (r *runtimeProcess) climb(now time.Time, out Out) {
	for again := true; again; {
		again = r.look(now, out)
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

// due is when a call goes on by itself; zero for never.
func (c *calling) due(now time.Time) time.Time {
	at := c.until
	if c.kind == callExec && !c.ends.IsZero() && c.ends.Before(at) {
		at = c.ends
	}
	if c.climb != nil && c.climb.Timeout > 0 && !c.climb.Killed {
		if kill := c.climb.Began.Add(c.climb.Timeout); kill.After(now) && (at.IsZero() || kill.Before(at)) {
			at = kill
		}
	}
	return at
}

// proceed goes one step on with a call, and reports whether it has.
func (r *runtimeProcess) proceed(now time.Time, call *calling, out Out) bool {
	if !slices.Contains(r.calls, call) {
		return false
	}
	gone := call.kind != callSettle && !now.Before(call.until)
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
		if call.container.box.open() != nil && call.container.alive() { // stopped in between
			r.calls = append(r.calls, &calling{kind: callSettle, kills: []*held{call.container}})
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
	case callStop, callRemove, callStopBox, callRemoveBox, callSettle:
	}
	if len(call.kills) > 0 {
		return r.kill(now, call, out)
	}
	r.finish(call, out)
	return true
}

// finish does what a call does once nothing runs any more.
func (r *runtimeProcess) finish(call *calling, out Out) {
	switch call.kind {
	case callRemove:
		r.forget(call.container, out)
	case callStopBox:
		r.markStopped(call.box, out)
	case callRemoveBox:
		r.markStopped(call.box, out)
		r.removeBox(call.box, out)
	case callStart, callStop, callExec, callSettle:
	}
	r.end(call, RuntimeResponse{}, out)
}

func (r *runtimeProcess) end(call *calling, answer RuntimeResponse, out Out) {
	r.calls = slices.DeleteFunc(r.calls, func(other *calling) bool { return other == call })
	if call.kind != callSettle {
		out.Answer(call.call, answer, nil)
	}
}

// kill goes one step up the ladder of the first container that is to end.
func (r *runtimeProcess) kill(now time.Time, call *calling, out Out) bool {
	c := call.kills[0]
	if r.pending(c) {
		return false
	}
	if call.climb == nil {
		call.climb = &runtime.StopCall{Timeout: call.timeout, Began: now}
	}
	if call.timeout > 0 && call.boot != r.kernel.kubelet {
		call.climb.Gone = true // nobody waits for it any more (CRI-07)
	}
	next, _ := call.climb.Next(runtime.StopTarget{Alive: c.alive(), Unreachable: c.status.Unreachable, Signaled: c.signaled}, now)
	switch next {
	case runtime.StepDone:
		call.kills, call.climb = call.kills[1:], nil
	case runtime.StepSignal:
		c.signaled = true
		c.Events.Stop, call.climb.Began = now, now
		r.do(now, c, engine.StopSignal(c.Request), out)
	case runtime.StepKill:
		call.climb.Killed = true
		if !c.killed {
			c.killed, c.Events.Kill = true, now
		}
		r.do(now, c, engine.SIGKILL, out)
	case runtime.StepLeave:
		r.end(call, RuntimeResponse{Err: refuse(proto.CodeCanceled, "the caller has left")}, out)
	case runtime.StepWait, runtime.StepWatch, runtime.StepHang:
		return false
	}
	return true
}
