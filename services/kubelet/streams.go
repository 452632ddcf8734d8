package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// doors are what clients reach on the node, by verb; none on a node without a bus.
func (p *parts) doors() map[string]bus.Handler {
	if p.cfg.Bus == nil {
		return nil
	}
	const exec, attach = "exec", "attach"
	return map[string]bus.Handler{"logs": p.tellLogs, exec: p.talks(exec), attach: p.talks(attach)}
}

// serve says when clients reach the door, and lets them in until ctx ends.
func (p *parts) serve(ctx context.Context, verb string, answer bus.Handler, heard chan<- struct{}) error {
	service, err := p.cfg.Bus.Listen(ctx, proto.NodeSubject(p.cfg.Node, verb))
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	heard <- struct{}{}
	return service.Serve(ctx, answer)
}

// talks lets clients talk with commands in containers, or with their own programs.
func (p *parts) talks(verb string) bus.Handler {
	return func(ctx context.Context, call *bus.Call) {
		client, err := call.Accept(ctx)
		if err != nil {
			p.cfg.Log.InfoContext(ctx, "a conversation with a container did not begin", "verb", verb, "err", err)
			return
		}
		if err := p.stream(ctx, verb, call.Data, client); err != nil {
			p.breakOff(ctx, client, err)
		}
	}
}

// farewell is how long, on the wall, the reason of a broken conversation may take to leave.
const farewell = time.Second

// breakOff tells a client why it is not told how its conversation ended.
func (p *parts) breakOff(ctx context.Context, client remote.Conn, err error) {
	status := runtimeapi.StreamStatus(err)
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		status = proto.StatusFrom(err)
	}
	ctx, cancel := clock.Clock{}.Timeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	_ = remote.SendStatus(ctx, client, status) // it may have left
}

// stream lets a client talk with a process, until either side has ended. It fails when the
// client has not been told how it ended.
func (p *parts) stream(ctx context.Context, verb string, data []byte, client remote.Conn) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.cfg.Log.ErrorContext(ctx, "a conversation made the kubelet panic",
				"verb", verb, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = apierrors.NewInternalError(errPanic)
		}
	}()
	var request proto.StreamRequest
	if err := json.Unmarshal(data, &request); err != nil {
		return apierrors.NewBadRequest(verb + ": " + err.Error())
	}
	if err := wrongStream(verb, request); err != nil {
		return err
	}
	container, err := p.streamed(request)
	if err != nil {
		return err
	}
	return p.runtime.Stream(ctx, &proto.ContainerStreamRequest{
		ContainerId: container, Command: request.Command, Tty: request.TTY,
		Stdin: request.Stdin, Stdout: request.Stdout, Stderr: request.Stderr && !request.TTY,
	}, client)
}

// wrongStream is upstream's refusal of a request that asks for nothing. The stderr of a
// terminal is nothing, as in its remotecommand.NewOptions.
func wrongStream(verb string, request proto.StreamRequest) error {
	switch {
	case !request.Stdin && !request.Stdout && (!request.Stderr || request.TTY):
		return apierrors.NewBadRequest("you must specify at least 1 of stdin, stdout, stderr")
	case verb == "exec" && len(request.Command) == 0:
		return apierrors.NewBadRequest("you must specify at least one command for the container")
	case verb == "attach" && len(request.Command) > 0:
		return apierrors.NewBadRequest("attach takes no command")
	}
	return nil
}

// streamed is the id of the running container that a request means. One that does not run
// is not found, as upstream's kubelet has it.
func (p *parts) streamed(request proto.StreamRequest) (string, error) {
	pod, found := p.named(request.Namespace, request.Pod, request.UID)
	if !found {
		return "", apierrors.NewNotFound(p.kinds.pods.GroupResource(), request.Pod)
	}
	name := request.Container
	if running := pod.Running(); name == "" && len(running) == 1 {
		name = running[0].GetName()
	}
	if container := pod.Latest(name); container != nil && podstate.Alive(container) {
		return container.GetId(), nil
	}
	return "", apierrors.NewInternalError(fmt.Errorf("unable to upgrade connection: container not found (%q)", name))
}
