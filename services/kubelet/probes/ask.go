package probes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// ask carries a probe out. The output is what the event says of a failure, in upstream's
// words.
func (p *Prober) ask(ctx context.Context, object *corev1.Pod, spec *corev1.Container, id string, what *corev1.Probe) (Result, string) {
	ctx, cancel := p.cfg.Clock.Timeout(ctx, Timeout(what))
	defer cancel()
	switch {
	case what.Exec != nil:
		return p.askExec(ctx, id, what)
	case what.HTTPGet != nil:
		request, err := podstate.HTTPRequest(spec, id, what.HTTPGet)
		if err != nil {
			return Failure, err.Error()
		}
		return p.askHTTP(ctx, address(p.cfg.Cache, object, what.HTTPGet.Host), request)
	case what.TCPSocket != nil:
		port, err := podstate.Port(spec, what.TCPSocket.Port)
		if err != nil {
			return Failure, err.Error()
		}
		_, err = p.cfg.Runtime.Reach(ctx, &proto.ReachRequest{ContainerId: id, Scheme: "tcp", Host: what.TCPSocket.Host, Port: port})
		if err != nil {
			return Failure, fmt.Sprintf("dial tcp %s:%d: %s", address(p.cfg.Cache, object, what.TCPSocket.Host), port, cause(ctx, err))
		}
		return Success, ""
	case what.GRPC != nil:
		return p.askGRPC(ctx, id, what.GRPC)
	}
	return Failure, fmt.Sprintf("missing probe handler for %s:%s", podstate.Key(object), spec.Name)
}

// maxOutput is how many bytes of what a command writes are told (upstream's
// maxReadLength).
const maxOutput = 10 << 10

// askExec gives the runtime the timeout as well: only the runtime can end the command.
func (p *Prober) askExec(ctx context.Context, id string, what *corev1.Probe) (Result, string) {
	answer, err := p.cfg.Runtime.ExecSync(ctx, &proto.ExecSyncRequest{
		ContainerId: id, Command: what.Exec.Command, TimeoutSeconds: int64(Timeout(what) / time.Second),
	})
	switch {
	case err != nil && (ctx.Err() != nil || timedOut(err)):
		return Failure, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(what.Exec.Command, " "), Timeout(what))
	case err != nil:
		return Failure, err.Error()
	case answer.GetExitCode() != 0:
		output := slices.Concat(answer.GetStdout(), answer.GetStderr())
		return Failure, string(output[:min(len(output), maxOutput)])
	}
	return Success, ""
}

// timedOut reports whether a runtime has ended a command because its time was up.
func timedOut(err error) bool {
	refused, ok := errors.AsType[*proto.RuntimeError](err)
	return ok && refused.Code == proto.CodeDeadlineExceeded
}

func (p *Prober) askHTTP(ctx context.Context, host string, request *proto.ReachRequest) (Result, string) {
	answer, err := p.cfg.Runtime.Reach(ctx, request)
	if err != nil {
		return Failure, fmt.Sprintf("Get \"%s://%s:%d%s\": dial tcp %s:%d: %s",
			request.Scheme, host, request.Port, request.Path, host, request.Port, cause(ctx, err))
	}
	if code := answer.GetCode(); code < 200 || code >= 400 {
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code)
	}
	return Success, ""
}

// serving is the only good answer of a gRPC health service.
const serving = 1

func (p *Prober) askGRPC(ctx context.Context, id string, what *corev1.GRPCAction) (Result, string) {
	request := &proto.ReachRequest{ContainerId: id, Scheme: "grpc", Port: what.Port}
	if what.Service != nil {
		request.Service = *what.Service
	}
	answer, err := p.cfg.Runtime.Reach(ctx, request)
	if err != nil {
		return Failure, fmt.Sprintf("timeout: failed to connect service \":%d\": %s", what.Port, cause(ctx, err))
	}
	if answer.GetCode() != serving {
		return Failure, fmt.Sprintf("service unhealthy (responded with %d)", answer.GetCode())
	}
	return Success, ""
}

// address is where a probe goes, as messages name it.
func address(cache Cache, object *corev1.Pod, host string) string {
	if host != "" {
		return host
	}
	seen, _ := cache.Last(object.UID)
	return seen.Sandbox().GetIp()
}

// cause is why there was no answer, without the words of the call.
func cause(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "i/o timeout"
	}
	text := err.Error()
	if refused, ok := errors.AsType[*proto.RuntimeError](err); ok {
		text = refused.Desc
	}
	return text[max(strings.Index(text, "connect: "), 0):]
}
