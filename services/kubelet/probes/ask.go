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

// runProbe runs a probe. The output is the text of the failure event, in upstream's words. An error
// says that the probe has no result.
func (p *Prober) runProbe(ctx context.Context, object *corev1.Pod, spec *corev1.Container, id string, what *corev1.Probe) (Result, string, error) {
	ctx, cancel := p.cfg.Clock.Timeout(ctx, Timeout(what))
	defer cancel()
	switch {
	case what.Exec != nil:
		return p.runExec(ctx, id, what)
	case what.HTTPGet != nil:
		request, err := podstate.HTTPRequest(spec, id, what.HTTPGet)
		if err != nil {
			return Unknown, "", err
		}
		result, output := p.runHTTP(ctx, probeHost(p.cfg.Cache, object, what.HTTPGet.Host), request)
		return result, output, nil
	case what.TCPSocket != nil:
		port, err := podstate.Port(spec, what.TCPSocket.Port)
		if err != nil {
			return Unknown, "", err
		}
		_, err = p.cfg.Runtime.Reach(ctx, &proto.ReachRequest{ContainerId: id, Scheme: "tcp", Host: what.TCPSocket.Host, Port: port})
		if err != nil {
			return Failure, "dial tcp " + joinHostPort(probeHost(p.cfg.Cache, object, what.TCPSocket.Host), port) + ": " + dialError(ctx, err), nil
		}
		return Success, "", nil
	case what.GRPC != nil:
		result, output := p.runGRPC(ctx, id, joinHostPort(probeHost(p.cfg.Cache, object, ""), what.GRPC.Port), what)
		return result, output, nil
	}
	return Unknown, "", fmt.Errorf("missing probe handler for %s:%s", podstate.Key(object), spec.Name)
}

// maxOutput is how many bytes of a command's output are reported (upstream's maxReadLength).
const maxOutput = 10 << 10

// runExec also passes the timeout to the runtime: only the runtime can end the command.
func (p *Prober) runExec(ctx context.Context, id string, what *corev1.Probe) (Result, string, error) {
	answer, err := p.cfg.Runtime.ExecSync(ctx, &proto.ExecSyncRequest{
		ContainerId: id, Command: what.Exec.Command, TimeoutSeconds: int64(Timeout(what) / time.Second),
	})
	switch {
	case err != nil && (ctx.Err() != nil || timedOut(err)):
		return Failure, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(what.Exec.Command, " "), Timeout(what)), nil //nolint:nilerr // a timeout is the result
	case err != nil:
		return Unknown, "", err
	case answer.GetExitCode() != 0:
		output := slices.Concat(answer.GetStdout(), answer.GetStderr())
		return Failure, string(output[:min(len(output), maxOutput)]), nil
	}
	return Success, "", nil
}

// timedOut reports whether a runtime ended a command because its time was up.
func timedOut(err error) bool {
	refused, ok := errors.AsType[*proto.RuntimeError](err)
	return ok && refused.Code == proto.CodeDeadlineExceeded
}

func (p *Prober) runHTTP(ctx context.Context, host string, request *proto.ReachRequest) (Result, string) {
	answer, err := p.cfg.Runtime.Reach(ctx, request)
	at := joinHostPort(host, request.Port)
	switch {
	case err != nil && (ctx.Err() != nil || timedOut(err)):
		return Failure, fmt.Sprintf("Get \"%s://%s%s\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)", request.Scheme, at, request.Path)
	case err != nil:
		return Failure, fmt.Sprintf("Get \"%s://%s%s\": dial tcp %s: %s", request.Scheme, at, request.Path, at, dialError(ctx, err))
	}
	if code := answer.GetCode(); code < 200 || code >= 400 {
		return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", code)
	}
	return Success, ""
}

// Answers of a gRPC health service.
const (
	serving    = 1
	notServing = 2
)

// runGRPC fails if there is no answer in time: a refused connection is retried until then.
func (p *Prober) runGRPC(ctx context.Context, id, at string, what *corev1.Probe) (Result, string) {
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

// joinHostPort returns an address as a dialer names it.
func joinHostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// probeHost returns the host that a probe connects to, for messages.
func probeHost(cache Cache, object *corev1.Pod, host string) string {
	if host != "" {
		return host
	}
	seen, _ := cache.Last(object.UID)
	return seen.Sandbox().GetIp()
}

// connectionRefused is a dialer's error for a port without a listener.
const connectionRefused = "connect: connection refused"

// dialError returns why there was no connection, as a dialer says it. A container that does not run
// has no listener, whatever its runtime says.
func dialError(ctx context.Context, err error) string {
	if ctx.Err() != nil || timedOut(err) {
		return "i/o timeout"
	}
	text := err.Error()
	if at := strings.Index(text, "connect: "); at >= 0 {
		return text[at:]
	}
	return connectionRefused
}
