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

// handlers returns the handlers for clients of the node, by verb; none for a node without a bus.
func (p *parts) handlers() map[string]bus.Handler {
	if p.cfg.Bus == nil {
		return nil
	}
	const exec, attach = "exec", "attach"
	return map[string]bus.Handler{"logs": p.handleLogs, exec: p.handleStream(exec), attach: p.handleStream(attach)}
}

// serve sends on reachable when clients reach the handler, and serves them until ctx ends.
func (p *parts) serve(ctx context.Context, verb string, answer bus.Handler, reachable chan<- struct{}) error {
	service, err := p.cfg.Bus.Listen(ctx, proto.NodeSubject(p.cfg.Node, verb))
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	reachable <- struct{}{}
	return service.Serve(ctx, answer)
}

// handleStream connects clients with commands in containers, or with the containers' programs.
func (p *parts) handleStream(verb string) bus.Handler {
	return func(ctx context.Context, call *bus.Call) {
		client, err := call.Accept(ctx)
		if err != nil {
			p.cfg.Log.InfoContext(ctx, "a conversation with a container did not begin", "verb", verb, "err", err)
			return
		}
		if err := p.runStream(ctx, verb, call.Data, client); err != nil {
			p.sendFailure(ctx, client, err)
		}
	}
}

// failureTimeout is how long, in wall time, sending the reason of a failed stream may take.
const failureTimeout = time.Second

// sendFailure sends a client the reason why its stream failed.
func (p *parts) sendFailure(ctx context.Context, client remote.Conn, err error) {
	status := runtimeapi.StreamStatus(err)
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		status = proto.StatusFrom(err)
	}
	ctx, cancel := clock.Clock{}.Timeout(context.WithoutCancel(ctx), failureTimeout)
	defer cancel()
	_ = remote.SendStatus(ctx, client, status) // it may have left
}

// runStream connects a client with a process until either side ends. It returns an error only if
// the client was not sent the result.
func (p *parts) runStream(ctx context.Context, verb string, data []byte, client remote.Conn) (err error) {
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
	if err := checkStream(verb, request); err != nil {
		return err
	}
	container, err := p.findStreamContainer(request)
	if err != nil {
		return err
	}
	return p.runtime.Stream(ctx, &proto.ContainerStreamRequest{
		ContainerId: container, Command: request.Command, Tty: request.TTY,
		Stdin: request.Stdin, Stdout: request.Stdout, Stderr: request.Stderr && !request.TTY,
	}, client)
}

// checkStream is upstream's refusal of a request that asks for nothing. The stderr of a terminal
// counts as nothing, as in its remotecommand.NewOptions.
func checkStream(verb string, request proto.StreamRequest) error {
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

// findStreamContainer returns the id of the running container of a request. A container that does
// not run is not found, as with upstream's kubelet.
func (p *parts) findStreamContainer(request proto.StreamRequest) (string, error) {
	pod, found := p.findPod(request.Namespace, request.Pod, request.UID)
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
