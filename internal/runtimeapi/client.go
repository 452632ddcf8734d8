package runtimeapi

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// answerGrace is how much longer than a call's deadline the client waits, in wall time, for the
// runtime's own deadline error.
const answerGrace = 100 * time.Millisecond

// Client is a [Runtime] on the other end of a node bus. One Client is one incarnation of its
// caller: another Client with the same identity ends the calls of the first.
type Client struct {
	conn      *bus.Conn
	clock     clock.Clock
	boot      proto.Boot
	methods   map[string]method
	calls     atomic.Uint64
	unlimited unlimitedCalls
}

// unlimitedCalls are the calls without a deadline. They end with the runtime's incarnation. Only an
// answer of the next incarnation shows that it has ended.
type unlimitedCalls struct {
	mu    sync.Mutex
	boot  string // boot of the latest answer
	open  map[uint64]context.CancelFunc
	count uint64
}

// start returns a context that ends when another incarnation answers. The caller must call over at
// the end.
func (p *unlimitedCalls) start(ctx context.Context) (waiting context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	number := p.count
	p.open[number] = cancel
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, number)
		cancel()
	}
}

// observeBoot records which incarnation has answered.
func (p *unlimitedCalls) observeBoot(boot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if boot == p.boot {
		return
	}
	if p.boot != "" {
		for _, cancel := range p.open {
			cancel()
		}
	}
	p.boot = boot
}

// errRestarted is the error of a call whose runtime has ended.
var errRestarted = &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "the container runtime has restarted"}

var _ Runtime = (*Client)(nil)

// NewClient returns a client of the runtime on conn's bus; clk is the cluster's clock.
func NewClient(conn *bus.Conn, clk clock.Clock) *Client {
	var entropy [4]byte
	_, _ = rand.Read(entropy[:]) // never fails
	return &Client{conn: conn, clock: clk, boot: proto.NewBoot(clk.Now(), entropy), methods: methods(), unlimited: unlimitedCalls{open: map[uint64]context.CancelFunc{}}}
}

// RunPodSandbox implements [Sandboxes].
func (c *Client) RunPodSandbox(ctx context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	var answer proto.RunPodSandboxResponse
	err := c.call(ctx, runPodSandbox, req, &answer)
	return answer.Sandbox, err
}

// StopPodSandbox implements [Sandboxes].
func (c *Client) StopPodSandbox(ctx context.Context, id string) error {
	return c.call(ctx, stopPodSandbox, &proto.StopPodSandboxRequest{SandboxId: id}, &proto.StopPodSandboxResponse{})
}

// RemovePodSandbox implements [Sandboxes].
func (c *Client) RemovePodSandbox(ctx context.Context, id string) error {
	return c.call(ctx, removePodSandbox, &proto.RemovePodSandboxRequest{SandboxId: id}, &proto.RemovePodSandboxResponse{})
}

// PodSandboxStatus implements [Sandboxes].
func (c *Client) PodSandboxStatus(ctx context.Context, id string) (*proto.Sandbox, error) {
	var answer proto.PodSandboxStatusResponse
	err := c.call(ctx, podSandboxStatus, &proto.PodSandboxStatusRequest{SandboxId: id}, &answer)
	return answer.Sandbox, err
}

// ListPodSandbox implements [Sandboxes].
func (c *Client) ListPodSandbox(ctx context.Context, podUID string) ([]*proto.Sandbox, error) {
	var answer proto.ListPodSandboxResponse
	err := c.call(ctx, listPodSandbox, &proto.ListPodSandboxRequest{PodUid: podUID}, &answer)
	return answer.Sandboxes, err
}

// CreateContainer implements [Containers].
func (c *Client) CreateContainer(ctx context.Context, req *proto.CreateContainerRequest) (string, error) {
	var answer proto.CreateContainerResponse
	err := c.call(ctx, createContainer, req, &answer)
	return answer.ContainerId, err
}

// StartContainer implements [Containers].
func (c *Client) StartContainer(ctx context.Context, id string) error {
	return c.call(ctx, startContainer, &proto.StartContainerRequest{ContainerId: id}, &proto.StartContainerResponse{})
}

// StopContainer implements [Containers].
func (c *Client) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	req := &proto.StopContainerRequest{ContainerId: id, TimeoutSeconds: timeoutSeconds}
	return c.call(ctx, stopContainer, req, &proto.StopContainerResponse{})
}

// RemoveContainer implements [Containers].
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	return c.call(ctx, removeContainer, &proto.RemoveContainerRequest{ContainerId: id}, &proto.RemoveContainerResponse{})
}

// ContainerStatus implements [Containers].
func (c *Client) ContainerStatus(ctx context.Context, id string) (*proto.Container, error) {
	var answer proto.ContainerStatusResponse
	err := c.call(ctx, containerStatus, &proto.ContainerStatusRequest{ContainerId: id}, &answer)
	return answer.Container, err
}

// ListContainers implements [Containers].
func (c *Client) ListContainers(ctx context.Context, podUID string) ([]*proto.Container, error) {
	var answer proto.ListContainersResponse
	err := c.call(ctx, listContainers, &proto.ListContainersRequest{PodUid: podUID}, &answer)
	return answer.Containers, err
}

// ExecSync implements [Tasks].
func (c *Client) ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	var answer proto.ExecSyncResponse
	if err := c.call(ctx, execSync, req, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// Reach implements [Tasks].
func (c *Client) Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	var answer proto.ReachResponse
	if err := c.call(ctx, reach, req, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

// ContainerLogs implements [Tasks].
func (c *Client) ContainerLogs(ctx context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	var answer proto.ContainerLogsResponse
	err := c.call(ctx, containerLogs, req, &answer)
	return answer.Log, err
}

// ImageStatus implements [Images].
func (c *Client) ImageStatus(ctx context.Context, image string) (bool, error) {
	var answer proto.ImageStatusResponse
	err := c.call(ctx, imageStatus, &proto.ImageStatusRequest{Image: image}, &answer)
	return answer.Present, err
}

// PullImage implements [Images].
func (c *Client) PullImage(ctx context.Context, image string) (int64, error) {
	var answer proto.PullImageResponse
	err := c.call(ctx, pullImage, &proto.PullImageRequest{Image: image}, &answer)
	return answer.SizeBytes, err
}

// call makes one call, limited by the method's deadline and ctx.
func (c *Client) call(ctx context.Context, name string, req, answer protobuf.Message) error {
	own := c.methods[name].limit(req)
	envelope := &proto.RuntimeRequest{
		Version:     proto.Version,
		Boot:        string(c.boot),
		TimeoutNano: int64(c.timeout(ctx, own)),
		Call:        strconv.FormatUint(c.calls.Add(1), 10),
		Caller:      string(c.conn.Identity()),
	}
	var err error
	if envelope.Body, err = protobuf.Marshal(req); err != nil {
		return ToRuntimeError(err)
	}
	var waiting context.Context
	var done func()
	if own == noLimit {
		waiting, done = c.unlimited.start(ctx)
	} else {
		waiting, done = c.clock.Timeout(ctx, own+c.clock.ClusterDuration(answerGrace))
	}
	defer done()
	data, err := c.send(waiting, name, envelope)
	switch {
	case err == nil:
		return c.decode(data, answer)
	case ctx.Err() != nil:
		c.cancelCall(envelope)
		return ToRuntimeError(ctx.Err())
	case waiting.Err() != nil && own == noLimit:
		c.cancelCall(envelope) // the new incarnation may have received the call
		return errRestarted
	case waiting.Err() != nil:
		c.cancelCall(envelope) // a stalled runtime receives the call and this cancellation together
		return &proto.RuntimeError{Code: proto.CodeDeadlineExceeded, Desc: context.DeadlineExceeded.Error(), Unanswered: true}
	}
	return ToRuntimeError(err)
}

// timeout returns how long a call may take in cluster time: own, or the time until the deadline of
// ctx if that is less; noLimit without either.
func (c *Client) timeout(ctx context.Context, own time.Duration) time.Duration {
	limit := own
	if deadline, ok := ctx.Deadline(); ok {
		left := max(c.clock.ClusterDuration(clock.Clock{}.Until(deadline)), 1)
		if limit == noLimit || left < limit {
			limit = left
		}
	}
	return limit
}

// send sends the envelope and returns the answer, which may come in parts.
func (c *Client) send(ctx context.Context, name string, envelope *proto.RuntimeRequest) ([]byte, error) {
	raw, err := protobuf.Marshal(envelope)
	if err != nil {
		return nil, err
	}
	var data []byte
	for part, err := range c.conn.Stream(ctx, proto.Runtime, proto.CRISubject(name), raw) {
		if err != nil {
			return nil, err
		}
		if data == nil {
			data = part
		} else {
			data = append(data, part...)
		}
	}
	return data, ctx.Err()
}

// cancelCall tells the runtime that the caller has stopped waiting. If the message is lost, the
// deadline or the caller's next incarnation ends the call.
func (c *Client) cancelCall(envelope *proto.RuntimeRequest) {
	raw, err := protobuf.Marshal(&proto.RuntimeRequest{
		Version: envelope.Version, Boot: envelope.Boot, Call: envelope.Call, Caller: envelope.Caller,
	})
	if err == nil {
		_ = c.conn.Publish(proto.CRISubject(cancel), raw)
	}
}

// decode decodes an answer's envelope into the answer or the error.
func (c *Client) decode(data []byte, answer protobuf.Message) error {
	var envelope proto.RuntimeResponse
	if err := protobuf.Unmarshal(data, &envelope); err != nil {
		return ToRuntimeError(err)
	}
	c.unlimited.observeBoot(envelope.Boot)
	if envelope.Code != proto.CodeOK {
		return &proto.RuntimeError{Code: envelope.Code, Desc: envelope.Message}
	}
	if err := protobuf.Unmarshal(envelope.Body, answer); err != nil {
		return ToRuntimeError(err)
	}
	return nil
}

// ToRuntimeError converts err, which is not nil, to CRI's gRPC status. A *proto.RuntimeError stays
// as it is, context errors keep their code, and everything else becomes Unknown.
func ToRuntimeError(err error) *proto.RuntimeError {
	var own *proto.RuntimeError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.DeadlineExceeded):
		return &proto.RuntimeError{Code: proto.CodeDeadlineExceeded, Desc: context.DeadlineExceeded.Error()}
	case errors.Is(err, context.Canceled):
		return &proto.RuntimeError{Code: proto.CodeCanceled, Desc: context.Canceled.Error()}
	}
	for _, away := range []error{bus.ErrNoResponder, bus.ErrDisconnected, bus.ErrAbandoned, bus.ErrClosed} {
		if errors.Is(err, away) {
			return &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "the container runtime is not available: " + away.Error()}
		}
	}
	return &proto.RuntimeError{Code: proto.CodeUnknown, Desc: err.Error()}
}
