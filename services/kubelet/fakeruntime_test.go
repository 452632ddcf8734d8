package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podfall/podfall/proto"
)

// fakeRuntime runs containers by script. It outlives kubelets.
type fakeRuntime struct {
	trace *trace

	mu         sync.Mutex
	purges     bool // trace removals too
	down       bool
	lies       bool  // StopContainer says OK and does nothing
	sandboxErr error // of StopPodSandbox
	sandboxes  []*proto.Sandbox
	containers []*fakeContainer
	// created is what was asked for, in order.
	created []*proto.CreateContainerRequest
	next    int
}

type fakeContainer struct {
	*proto.Container
	script   string
	signaled time.Time
	begun    bool // of startsLate alone
}

// panics is how many lines of a log make the runtime panic.
const panics = 666

var errDown = &proto.RuntimeError{Code: proto.CodeUnavailable, Desc: "connection refused"}

// live brings a container's state up to now by its script. The caller holds the lock.
func (c *fakeContainer) live() *proto.Container {
	if c.State == proto.ContainerState_CONTAINER_STATE_RUNNING {
		if at, code, ok := c.exit(); ok && !time.Now().Before(at) {
			c.end(at, code)
		}
	}
	return protoCopy(c.Container)
}

func (c *fakeContainer) exit() (at time.Time, code int32, ok bool) {
	var d time.Duration
	if f := strings.Fields(c.script); len(f) == 6 && f[1] == "TERM" { // on TERM exits N after D
		d, _ = time.ParseDuration(f[5])
		return c.signaled.Add(d), number(f[3]), !c.signaled.IsZero()
	} else if len(f) == 4 && f[0] == "exits" { // exits N after D
		d, _ = time.ParseDuration(f[3])
		return time.Unix(0, c.StartedAtUnixNano).Add(d), number(f[1]), true
	}
	return time.Time{}, 0, false
}

func number(text string) int32 {
	n, _ := strconv.ParseInt(text, 10, 32)
	return int32(n)
}

func (c *fakeContainer) end(at time.Time, code int32) {
	c.State, c.FinishedAtUnixNano, c.ExitCode = proto.ContainerState_CONTAINER_STATE_EXITED, at.UnixNano(), code
	c.Reason = "Completed"
	if code != 0 {
		c.Reason = "Error"
	}
}

func protoCopy(c *proto.Container) *proto.Container {
	return &proto.Container{
		Id: c.Id, SandboxId: c.SandboxId, Name: c.Name, Attempt: c.Attempt, Image: c.Image, State: c.State,
		CreatedAtUnixNano: c.CreatedAtUnixNano, StartedAtUnixNano: c.StartedAtUnixNano, FinishedAtUnixNano: c.FinishedAtUnixNano,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, Labels: c.Labels, Annotations: c.Annotations,
	}
}

func (r *fakeRuntime) RunPodSandbox(_ context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "RunPodSandbox %s attempt=%d", req.PodName, req.Attempt)
	r.next++
	s := &proto.Sandbox{
		Id: fmt.Sprintf("s%d", r.next), PodName: req.PodName, PodNamespace: req.PodNamespace, PodUid: req.PodUid,
		Attempt: req.Attempt, CreatedAtUnixNano: time.Now().UnixNano(), Ip: fmt.Sprintf("10.0.0.%d", r.next), Labels: req.Labels,
	}
	r.sandboxes = append(r.sandboxes, s)
	return sandboxCopy(s), nil
}

func sandboxCopy(s *proto.Sandbox) *proto.Sandbox {
	return &proto.Sandbox{
		Id: s.Id, PodName: s.PodName, PodNamespace: s.PodNamespace, PodUid: s.PodUid, Attempt: s.Attempt,
		State: s.State, CreatedAtUnixNano: s.CreatedAtUnixNano, Ip: s.Ip, Labels: s.Labels,
	}
}

func (r *fakeRuntime) StopPodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "StopPodSandbox")
	if r.sandboxErr != nil {
		return r.sandboxErr
	}
	for _, s := range r.sandboxes {
		if s.Id == id {
			s.State = proto.SandboxState_SANDBOX_STATE_NOTREADY
		}
	}
	return nil
}

func (r *fakeRuntime) RemovePodSandbox(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purges {
		r.trace.add("runtime", "RemovePodSandbox")
	}
	r.sandboxes = slices.DeleteFunc(r.sandboxes, func(s *proto.Sandbox) bool { return s.Id == id })
	return nil
}

func (r *fakeRuntime) PodSandboxStatus(context.Context, string) (*proto.Sandbox, error) {
	return nil, nil
}

func (r *fakeRuntime) ListPodSandbox(_ context.Context, uid string) ([]*proto.Sandbox, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errDown
	}
	var all []*proto.Sandbox
	for _, s := range r.sandboxes {
		if uid == "" || s.PodUid == uid {
			all = append(all, sandboxCopy(s))
		}
	}
	return all, nil
}

func (r *fakeRuntime) CreateContainer(_ context.Context, req *proto.CreateContainerRequest) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "CreateContainer %s attempt=%d", req.Name, req.Attempt)
	if req.Script == "cannot be created" {
		return "", &proto.RuntimeError{Code: proto.CodeInvalidArgument, Desc: "no such script"}
	}
	r.next++
	r.created = append(r.created, req)
	c := &fakeContainer{script: req.Script, Container: &proto.Container{
		Id: fmt.Sprintf("c%d", r.next), SandboxId: req.SandboxId, Name: req.Name, Attempt: req.Attempt, Image: req.Image,
		CreatedAtUnixNano: time.Now().UnixNano(), Labels: req.Labels,
	}}
	r.containers = append(r.containers, c)
	return c.Id, nil
}

func (r *fakeRuntime) find(id string) *fakeContainer {
	for _, c := range r.containers {
		if c.Id == id {
			return c
		}
	}
	return nil
}

// startsLate is the script of a container whose start outlives the kubelet that asked for
// it, and which runs the moment that another asks.
const startsLate = "starts late"

func (r *fakeRuntime) StartContainer(ctx context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.find(id)
	r.trace.add("runtime", "StartContainer %s", c.Name)
	if c.script == startsLate && !c.begun {
		c.begun = true
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return ctx.Err()
	}
	if c.script == "fails to start" {
		c.end(time.Now(), 128)
		c.Reason = "StartError"
		return &proto.RuntimeError{Code: proto.CodeUnknown, Desc: "failed to start container"}
	}
	c.State, c.StartedAtUnixNano = proto.ContainerState_CONTAINER_STATE_RUNNING, time.Now().UnixNano()
	if c.begun {
		return &proto.RuntimeError{Code: proto.CodeUnknown, Desc: "container is in CONTAINER_RUNNING state"}
	}
	return nil
}

// exit ends a container by itself.
func (r *fakeRuntime) exit(name string, code int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.containers {
		if c.Name == name {
			c.end(time.Now(), code)
		}
	}
}

func (r *fakeRuntime) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.mu.Lock()
	if r.down {
		r.mu.Unlock()
		return errDown
	}
	c := r.find(id)
	if c == nil {
		r.mu.Unlock()
		return nil
	}
	r.trace.add("runtime", "StopContainer %s timeout=%d", c.Name, timeout)
	if c.live(); c.State != proto.ContainerState_CONTAINER_STATE_RUNNING || r.lies {
		r.mu.Unlock()
		return nil
	}
	if c.signaled.IsZero() { // only once over all calls (CRI-07)
		c.signaled = time.Now()
		r.trace.add("runtime", "  TERM %s", c.Name)
	}
	until := time.Now().Add(time.Duration(timeout) * time.Second)
	if at, _, ok := c.exit(); ok && at.Before(until) {
		until = at
	}
	r.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.live(); c.State == proto.ContainerState_CONTAINER_STATE_RUNNING {
		c.end(time.Now(), 137)
		r.trace.add("runtime", "  KILL %s", c.Name)
	}
	return nil
}

func (r *fakeRuntime) RemoveContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purges {
		r.trace.add("runtime", "RemoveContainer")
	}
	r.containers = slices.DeleteFunc(r.containers, func(c *fakeContainer) bool { return c.Id == id })
	return nil
}

func (r *fakeRuntime) ContainerStatus(context.Context, string) (*proto.Container, error) {
	return nil, nil
}

func (r *fakeRuntime) ListContainers(_ context.Context, uid string) ([]*proto.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errDown
	}
	var all []*proto.Container
	for _, c := range r.containers {
		if uid == "" || c.Labels["io.kubernetes.pod.uid"] == uid {
			all = append(all, c.live())
		}
	}
	return all, nil
}

// ExecSync knows three commands: "exits N", "takes D" and "hangs".
func (r *fakeRuntime) ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	r.mu.Lock()
	r.trace.add("runtime", "ExecSync %s %s", r.find(req.ContainerId).Name, strings.Join(req.Command, " "))
	r.mu.Unlock()
	switch req.Command[0] {
	case "exits":
		return &proto.ExecSyncResponse{ExitCode: number(req.Command[1])}, nil
	case "takes":
		takes, _ := time.ParseDuration(req.Command[1])
		time.Sleep(takes)
		return &proto.ExecSyncResponse{}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// Reach is answered on port 80.
func (r *fakeRuntime) Reach(_ context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace.add("runtime", "Reach %s %s:%d%s", r.find(req.ContainerId).Name, req.Scheme, req.Port, req.Path)
	if req.Port != 80 {
		return nil, &proto.RuntimeError{Code: proto.CodeUnknown, Desc: "dial tcp 127.0.0.1:81: connect: connection refused"}
	}
	return &proto.ReachResponse{Code: 500}, nil
}

func (r *fakeRuntime) ContainerLogs(_ context.Context, req *proto.ContainerLogsRequest) ([]byte, error) {
	if req.TailLines == panics {
		panic("a bug")
	}
	return []byte("hello\n"), nil
}

func (r *fakeRuntime) ImageStatus(context.Context, string) (bool, error) { return true, nil }

func (r *fakeRuntime) PullImage(context.Context, string) (int64, error) { return 0, nil }
