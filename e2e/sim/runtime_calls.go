package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

func refuse(code, format string, args ...any) error {
	return &proto.RuntimeError{Code: code, Desc: fmt.Sprintf(format, args...)}
}

// handleCall handles a call: most are answered at once, others when the awaited event has happened.
func (r *runtimeProcess) handleCall(now time.Time, call CallID, request RuntimeRequest, out Out) {
	r.refresh(now, out)
	answer := func(body any, err error) { out.Answer(call, RuntimeResponse{Body: body, Err: err}, nil) }
	waits := &pendingCall{call: call, boot: request.Boot, until: request.Until}
	switch do := request.Do.(type) {
	case List:
		answer(r.list(do.UID), nil)
	case RunSandbox:
		answer(r.runSandbox(now, do.Request, out))
	case CreateContainer:
		answer(r.create(now, do.Request, out))
	case StartContainer:
		c := r.findContainer(do.ID)
		if err := r.start(now, c, do.ID, out); err != nil {
			answer(nil, err)
			return
		}
		waits.kind, waits.container = callStart, c
		r.calls = append(r.calls, waits)
	case StopContainer:
		c := r.findContainer(do.ID)
		if c == nil || c.status.State != proto.ContainerState_CONTAINER_STATE_RUNNING {
			answer(nil, nil)
			return
		}
		waits.kind, waits.kills, waits.timeout = callStop, []*container{c}, time.Duration(do.Timeout)*time.Second
		r.calls = append(r.calls, waits)
	case RemoveContainer:
		if c := r.findContainer(do.ID); c != nil {
			c.removing = true
			waits.kind, waits.container, waits.kills = callRemove, c, []*container{c}
			r.calls = append(r.calls, waits)
			return
		}
		answer(nil, nil)
	case StopSandbox:
		r.onBox(do.ID, callStopBox, waits, out)
	case RemoveSandbox:
		r.onBox(do.ID, callRemoveBox, waits, out)
	case Exec:
		r.exec(now, do.ID, waits, out)
	case Reach:
		answer(nil, r.reach(now, do.ID))
	}
}

// reach is the answer of a container over its network: it answers well, or not at all.
func (r *runtimeProcess) reach(now time.Time, id string) error {
	c := r.findContainer(id)
	switch {
	case c == nil:
		return refuse(proto.CodeNotFound, "container %q: not found", id)
	case c.status.State != proto.ContainerState_CONTAINER_STATE_RUNNING:
		return refuse(proto.CodeUnknown, "failed to reach container %q: it is not running", id)
	}
	if script := r.kernel.programs[id].script; !script.Answers(c.Events.Start.Add(script.StartAfter), now) {
		return refuse(proto.CodeUnknown, "container %q: connect: connection refused", id)
	}
	return nil
}

// onBox begins what kills all containers of a sandbox first.
func (r *runtimeProcess) onBox(id string, kind callKind, waits *pendingCall, out Out) {
	b := r.findBox(id)
	if b == nil {
		out.Answer(waits.call, RuntimeResponse{}, nil)
		return
	}
	b.stopping = true
	waits.kind, waits.box, waits.kills = kind, b, r.containersIn(b)
	r.calls = append(r.calls, waits)
}

// containersIn returns the containers of a sandbox.
func (r *runtimeProcess) containersIn(b *box) []*container {
	var in []*container
	for _, c := range r.containers {
		if c.box == b {
			in = append(in, c)
		}
	}
	return in
}

func (r *runtimeProcess) list(uid string) Listing {
	listing := Listing{Boot: r.boot}
	for _, b := range r.boxes {
		if uid == "" || b.record.PodUid == uid {
			listing.Sandboxes = append(listing.Sandboxes, b.record)
		}
	}
	for _, c := range r.containers {
		if uid == "" || c.box.record.PodUid == uid {
			listing.Containers = append(listing.Containers, c.view())
		}
	}
	return listing
}

func (r *runtimeProcess) runSandbox(now time.Time, request *proto.RunPodSandboxRequest, out Out) (any, error) {
	name := boxName(request.PodName, request.PodNamespace, request.PodUid, request.Attempt)
	for _, b := range r.boxes {
		if has := boxName(b.record.PodName, b.record.PodNamespace, b.record.PodUid, b.record.Attempt); has == name {
			return nil, refuse(proto.CodeUnknown, "failed to reserve sandbox name %q: name %q is reserved for %q", name, name, b.record.Id)
		}
	}
	now = out.ClockTime(now)
	id := newID(name, now)
	record := &proto.Sandbox{
		Id: id, PodName: request.PodName, PodNamespace: request.PodNamespace, PodUid: request.PodUid, Attempt: request.Attempt,
		CreatedAtUnixNano: now.UnixNano(), Labels: request.Labels, Annotations: request.Annotations,
		State: proto.SandboxState_SANDBOX_STATE_READY, Ip: fmt.Sprintf("10.88.%d.%d", id[0], id[1]),
	}
	out.Persist(boxKey+id, record)
	r.boxes = append(r.boxes, &box{record: record})
	r.news = true
	return record, nil
}

// checkReady returns an error if the sandbox is not ready.
func (b *box) checkReady() error {
	if b.stopping || b.record.State != proto.SandboxState_SANDBOX_STATE_READY {
		return refuse(proto.CodeUnknown, "sandbox container %q is not running", b.record.Id)
	}
	return nil
}

func (r *runtimeProcess) create(now time.Time, request *proto.CreateContainerRequest, out Out) (any, error) {
	b := r.findBox(request.SandboxId)
	if b == nil {
		return nil, refuse(proto.CodeNotFound, "sandbox %q: not found", request.SandboxId)
	}
	if err := b.checkReady(); err != nil {
		return nil, err
	}
	for _, c := range r.containersIn(b) {
		if c.Request.Name == request.Name && c.Request.Attempt == request.Attempt {
			return nil, refuse(proto.CodeUnknown, "failed to reserve container name %q: it is reserved for %q", request.Name, c.ID)
		}
	}
	now = out.ClockTime(now)
	script, err := scriptOf(request, now)
	if err != nil {
		return nil, refuse(proto.CodeInvalidArgument, "%v", err)
	}
	name := boxName(b.record.PodName, b.record.PodNamespace, b.record.PodUid, request.Attempt)
	c := &container{containerRecord: containerRecord{ID: newID(request.Name+"_"+name, now), Created: now, Request: request}, box: b}
	r.kernel.load(c.ID, script, engine.Events{})
	out.Persist(containerKey+c.ID, c.containerRecord)
	r.containers = append(r.containers, c)
	out.Note("", history.Create{ContainerRef: c.ref(), Script: script.String()})
	r.news = true
	return c.ID, nil
}

// start puts the start of a container on record, and has it happen.
func (r *runtimeProcess) start(now time.Time, c *container, id string, out Out) error {
	switch {
	case c == nil:
		return refuse(proto.CodeNotFound, "container %q: not found", id)
	case c.status.State != proto.ContainerState_CONTAINER_STATE_CREATED:
		return refuse(proto.CodeUnknown, "container is in %s state", c.status.State)
	case c.removing:
		return refuse(proto.CodeUnknown, "container is in removing state, can't be started")
	case c.starting: // who has asked for it waits with whoever asks again
		return nil
	}
	if err := c.box.checkReady(); err != nil {
		return err
	}
	c.starting = true
	c.Events.Start = now
	r.queueEffect(now, c, "", out)
	return nil
}

// exec runs a command inside a container: it ends as the container's script says.
func (r *runtimeProcess) exec(now time.Time, id string, waits *pendingCall, out Out) {
	c := r.findContainer(id)
	if c == nil || c.status.State != proto.ContainerState_CONTAINER_STATE_RUNNING {
		out.Answer(waits.call, RuntimeResponse{Err: refuse(proto.CodeUnknown, "container %q does not run", id)}, nil)
		return
	}
	waits.kind, waits.container = callExec, c
	if script := r.kernel.programs[id].script; script.Exec != nil {
		waits.ends, waits.code = now.Add(script.Exec.After), script.Exec.Code
	} else if !script.ExecHangs {
		waits.ends = now
	}
	r.calls = append(r.calls, waits)
}

// forget removes a container that is dead.
func (r *runtimeProcess) forget(c *container, out Out) {
	out.Persist(containerKey+c.ID, nil)
	out.Note("", history.Remove{ContainerRef: c.ref()})
	delete(r.kernel.programs, c.ID)
	r.containers = slices.DeleteFunc(r.containers, func(other *container) bool { return other == c })
	r.effects = slices.DeleteFunc(r.effects, func(e effect) bool { return e.container == c })
	r.news = true
}

// markStopped puts on record that a sandbox is NOTREADY, and releases its address.
func (r *runtimeProcess) markStopped(b *box, out Out) {
	if b.record.State != proto.SandboxState_SANDBOX_STATE_NOTREADY {
		old := b.record
		b.record = &proto.Sandbox{
			Id: old.Id, PodName: old.PodName, PodNamespace: old.PodNamespace, PodUid: old.PodUid, Attempt: old.Attempt,
			CreatedAtUnixNano: old.CreatedAtUnixNano, Labels: old.Labels, Annotations: old.Annotations,
			State: proto.SandboxState_SANDBOX_STATE_NOTREADY, Ip: old.Ip,
		}
		out.Persist(boxKey+old.Id, b.record)
		r.news = true
	}
	if !b.released {
		b.released = true
		out.Note("", history.SandboxStop{Pod: b.record.PodNamespace + "/" + b.record.PodName, UID: b.record.PodUid})
	}
}

// removeBox forgets a sandbox that is stopped, with all that is in it.
func (r *runtimeProcess) removeBox(b *box, out Out) {
	for _, c := range r.containersIn(b) {
		r.forget(c, out)
	}
	out.Persist(boxKey+b.record.Id, nil)
	out.Note("", history.SandboxRemove{Pod: b.record.PodNamespace + "/" + b.record.PodName, UID: b.record.PodUid})
	r.boxes = slices.DeleteFunc(r.boxes, func(other *box) bool { return other == b })
	r.news = true
}

// startAnswer returns the answer to StartContainer of a container that has started, or could not be
// started.
func startAnswer(c *container) RuntimeResponse {
	if c.status.Reason == engine.ReasonStartError {
		return RuntimeResponse{Err: refuse(proto.CodeUnknown, "%s", cmp.Or(c.status.Message, "it could not be started"))}
	}
	return RuntimeResponse{}
}
