package probes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// ask carries a probe out. The output is what the event says of a failure, in upstream's words. An
// error says that the probe has found nothing.
func (p *Prober) ask(ctx context.Context, object *corev1.Pod, spec *corev1.Container, id string, what *corev1.Probe) (Result, string, error) {
	ctx, cancel := p.cfg.Clock.Timeout(ctx, Timeout(what))
	defer cancel()
	switch {
	case what.Exec != nil:
		return p.askExec(ctx, id, what)
	case what.HTTPGet != nil:
		request, err := podstate.HTTPRequest(spec, id, what.HTTPGet)
		if err != nil {
			return Unknown, "", err
		}
		result, output := p.askHTTP(ctx, address(p.cfg.Cache, object, what.HTTPGet.Host), request)
		return result, output, nil
	case what.TCPSocket != nil:
		port, err := podstate.Port(spec, what.TCPSocket.Port)
		if err != nil {
			return Unknown, "", err
		}
		_, err = p.cfg.Runtime.Reach(ctx, &proto.ReachRequest{ContainerId: id, Scheme: "tcp", Host: what.TCPSocket.Host, Port: port})
		if err != nil {
			return Failure, "dial tcp " + join(address(p.cfg.Cache, object, what.TCPSocket.Host), port) + ": " + cause(ctx, err), nil
		}
		return Success, "", nil
	case what.GRPC != nil:
		result, output := p.askGRPC(ctx, id, join(address(p.cfg.Cache, object, ""), what.GRPC.Port), what)
		return result, output, nil
	}
	return Unknown, "", fmt.Errorf("missing probe handler for %s:%s", podstate.Key(object), spec.Name)
}

// maxOutput is how many bytes of what a command writes are told (upstream's
// maxReadLength).
const maxOutput = 10 << 10

// askExec gives the runtime the timeout as well: only the runtime can end the command.
func (p *Prober) askExec(ctx context.Context, id string, what *corev1.Probe) (Result, string, error) {
	answer, err := p.cfg.Runtime.ExecSync(ctx, &proto.ExecSyncRequest{
		ContainerId: id, Command: what.Exec.Command, TimeoutSeconds: int64(Timeout(what) / time.Second),
	})
	switch {
	case err != nil && (ctx.Err() != nil || timedOut(err)):
		return Failure, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(what.Exec.Command, " "), Timeout(what)), nil
	case err != nil:
		return Unknown, "", err
	case answer.GetExitCode() != 0:
		output := slices.Concat(answer.GetStdout(), answer.GetStderr())
		return Failure, string(output[:min(len(output), maxOutput)]), nil
	}
	return Success, "", nil
}

// timedOut reports whether a runtime has ended a command because its time was up.
func timedOut(err error) bool {
	refused, ok := errors.AsType[*proto.RuntimeError](err)
	return ok && refused.Code == proto.CodeDeadlineExceeded
}

func (p *Prober) askHTTP(ctx context.Context, host string, request *proto.ReachRequest) (Result, string) {
	answer, err := p.cfg.Runtime.Reach(ctx, request)
	at := join(host, request.Port)
	switch {
	case err != nil && (ctx.Err() != nil || timedOut(err)):
		return Failure, fmt.Sprintf("Get \"%s://%s%s\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)", request.Scheme, at, request.Path)
	case err != nil:
		return Failure, fmt.Sprintf("Get \"%s://%s%s\": dial tcp %s: %s", request.Scheme, at, request.Path, at, cause(ctx, err))
	}
	if code := answer.GetCode(); code < 200 || code >= 400 {
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code)
	}
	return Success, ""
}

// The answers of a gRPC health service.
const (
	serving    = 1
	notServing = 2
)

// askGRPC fails when there is no answer in time: a connection that is refused is tried again until
// then.
func (p *Prober) askGRPC(ctx context.Context, id, at string, what *corev1.Probe) (Result, string) {
	request := &proto.ReachRequest{ContainerId: id, Scheme: "grpc", Port: what.GRPC.Port}
	if what.GRPC.Service != nil {
		request.Service = *what.GRPC.Service
	}
	answer, err := p.cfg.Runtime.Reach(ctx, request)
	if err != nil {
		return Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: context deadline exceeded", at, Timeout(what))
	}
	switch answer.GetCode() {
	case serving:
		return Success, ""
	case notServing:
		return Failure, `service unhealthy (responded with "NOT_SERVING")`
	}
	return Failure, `service unhealthy (responded with "UNKNOWN")`
}

// join is an address as a dialer names it.
func join(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// address is where a probe goes, as messages name it.
func address(cache Cache, object *corev1.Pod, host string) string {
	if host != "" {
		return host
	}
	seen, _ := cache.Last(object.UID)
	return seen.Sandbox().GetIp()
}

// refused is what a dialer says of a port on which nobody listens.
const refused = "connect: connection refused"

// cause is why there was no connection, as a dialer says it. A container that does not run listens on
// no port, whatever its runtime says.
func cause(ctx context.Context, err error) string {
	if ctx.Err() != nil || timedOut(err) {
		return "i/o timeout"
	}
	text := err.Error()
	if at := strings.Index(text, "connect: "); at >= 0 {
		return text[at:]
	}
	return refused
}
