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

// patience is how much longer than a call's deadline the client waits, on the wall,
// for the runtime to say in its own words that the deadline has passed.
const patience = 100 * time.Millisecond

// Client is a [Runtime] at the other end of a node bus. One Client is one incarnation
// of its caller: making another on the same identity ends the calls of the first.
type Client struct {
	conn    *bus.Conn
	clock   clock.Clock
	boot    proto.Boot
	methods map[string]method
	calls   atomic.Uint64
	patient patient
}

// patient are the calls without a limit. What an incarnation of the runtime was asked ends with
// it, and only the next one's answers show that it has.
type patient struct {
	mu   sync.Mutex
	boot string // of who has answered last
	open map[uint64]context.CancelFunc
	made uint64
}

// await has a call end when another incarnation answers than did before it; over lets go of it.
func (p *patient) await(ctx context.Context) (waiting context.Context, over func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	number := p.made
	p.open[number] = cancel
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, number)
		cancel()
	}
}

// heard takes note of who has answered.
func (p *patient) heard(boot string) {
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

// errAnew is what becomes of a call whose runtime is gone.
var errAnew = &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "the container runtime has begun anew"}

var _ Runtime = (*Client)(nil)

// NewClient speaks to the runtime on conn's bus; clk is the cluster's.
func NewClient(conn *bus.Conn, clk clock.Clock) *Client {
	var entropy [4]byte
	_, _ = rand.Read(entropy[:]) // never fails
	return &Client{conn: conn, clock: clk, boot: proto.NewBoot(clk.Now(), entropy), methods: methods(), patient: patient{open: map[uint64]context.CancelFunc{}}}
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

// call makes one call, within the method's deadline and ctx.
func (c *Client) call(ctx context.Context, name string, req, answer protobuf.Message) error {
	own := c.methods[name].limit(req)
	envelope := &proto.RuntimeRequest{
		Version:     proto.Version,
		Boot:        string(c.boot),
		TimeoutNano: int64(c.limit(ctx, own)),
		Call:        strconv.FormatUint(c.calls.Add(1), 10),
		Caller:      string(c.conn.Identity()),
	}
	var err error
	if envelope.Body, err = protobuf.Marshal(req); err != nil {
		return Refusal(err)
	}
	var waiting context.Context
	var over func()
	if own == noLimit {
		waiting, over = c.patient.await(ctx)
	} else {
		waiting, over = c.clock.Timeout(ctx, own+c.clock.ClusterDuration(patience))
	}
	defer over()
	data, err := c.ask(waiting, name, envelope)
	switch {
	case err == nil:
		return c.open(data, answer)
	case ctx.Err() != nil:
		c.giveUp(envelope)
		return Refusal(ctx.Err())
	case waiting.Err() != nil && own == noLimit:
		c.giveUp(envelope) // it may have been meant for the next one after all
		return errAnew
	case waiting.Err() != nil:
		c.giveUp(envelope) // a runtime that stood still finds the call and this together
		return &proto.RuntimeError{Code: proto.CodeDeadlineExceeded, Desc: context.DeadlineExceeded.Error(), Unanswered: true}
	}
	return Refusal(err)
}

// limit is how long a call may take in cluster time: its own deadline, or what is left of
// its caller's as things are; noLimit when it has neither.
func (c *Client) limit(ctx context.Context, own time.Duration) time.Duration {
	limit := own
	if deadline, ok := ctx.Deadline(); ok {
		left := max(c.clock.ClusterDuration(clock.Clock{}.Until(deadline)), 1)
		if limit == noLimit || left < limit {
			limit = left
		}
	}
	return limit
}

// ask carries the envelope there and the answer, which may come in parts, back.
func (c *Client) ask(ctx context.Context, name string, envelope *proto.RuntimeRequest) ([]byte, error) {
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

// giveUp tells the runtime that nobody waits for the call any more. If it does not
// arrive, the call's deadline or the caller's next incarnation ends it.
func (c *Client) giveUp(envelope *proto.RuntimeRequest) {
	raw, err := protobuf.Marshal(&proto.RuntimeRequest{
		Version: envelope.Version, Boot: envelope.Boot, Call: envelope.Call, Caller: envelope.Caller,
	})
	if err == nil {
		_ = c.conn.Publish(proto.CRISubject(cancel), raw)
	}
}

// open reads an answer's envelope: the answer itself, or the refusal.
func (c *Client) open(data []byte, answer protobuf.Message) error {
	var envelope proto.RuntimeResponse
	if err := protobuf.Unmarshal(data, &envelope); err != nil {
		return Refusal(err)
	}
	c.patient.heard(envelope.Boot)
	if envelope.Code != proto.CodeOK {
		return &proto.RuntimeError{Code: envelope.Code, Desc: envelope.Message}
	}
	if err := protobuf.Unmarshal(envelope.Body, answer); err != nil {
		return Refusal(err)
	}
	return nil
}

// Refusal is err, which is not nil, as the gRPC status that CRI answers it with: a
// *proto.RuntimeError as it is, a context's end by its name, and anything else Unknown.
func Refusal(err error) *proto.RuntimeError {
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
			return &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "the container runtime is away: " + away.Error()}
		}
	}
	return &proto.RuntimeError{Code: proto.CodeUnknown, Desc: err.Error()}
}
