package podworker

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// instantNode is a node on which everything takes no time.
type instantNode struct {
	ExecRuntime
	Volumes
	Images

	mu         sync.Mutex
	sandboxes  []*proto.Sandbox
	containers []*proto.Container
	finished   chan struct{}
	started    chan struct{}
}

func (n *instantNode) RunPodSandbox(_ context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sandboxes = []*proto.Sandbox{{Id: "s", PodUid: req.PodUid, State: proto.SandboxState_SANDBOX_STATE_READY}}
	return n.sandboxes[0], nil
}

func (n *instantNode) StopPodSandbox(context.Context, string) error   { return nil }
func (n *instantNode) RemovePodSandbox(context.Context, string) error { return nil }
func (n *instantNode) RemoveContainer(context.Context, string) error  { return nil }

func (n *instantNode) CreateContainer(_ context.Context, req *proto.CreateContainerRequest) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := strconv.Itoa(len(n.containers))
	n.containers = append(n.containers, &proto.Container{Id: id, Name: req.Name, SandboxId: req.SandboxId, State: created})
	return id, nil
}

func (n *instantNode) set(id string, state proto.ContainerState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, _ := strconv.Atoi(id)
	old := n.containers[i]
	n.containers[i] = &proto.Container{Id: id, Name: old.Name, SandboxId: old.SandboxId, State: state}
}

func (n *instantNode) StartContainer(_ context.Context, id string) error {
	n.set(id, running)
	return nil
}

func (n *instantNode) StopContainer(_ context.Context, id string, _ int64) error {
	n.set(id, exited)
	return nil
}

func (n *instantNode) Last(uid types.UID) (podstate.Pod, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return podstate.New(uid, n.sandboxes, append([]*proto.Container(nil), n.containers...)), true
}

func (n *instantNode) NewerThan(_ context.Context, uid types.UID, _ time.Time) (podstate.Pod, error) {
	seen, _ := n.Last(uid)
	return seen, nil
}

func (n *instantNode) Read(_ context.Context, uid types.UID, _ []*proto.Sandbox) (podstate.Pod, error) {
	seen, _ := n.Last(uid)
	return seen, nil
}

func (n *instantNode) Report(_ *corev1.Pod, seen podstate.Pod, facts status.Facts) corev1.PodStatus {
	if facts.MayRun && len(seen.Running()) == 2 && seen.Sandbox() != nil {
		select {
		case n.started <- struct{}{}:
		default:
		}
	}
	return corev1.PodStatus{}
}

func (n *instantNode) Derive(*corev1.Pod, podstate.Pod, status.Facts) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning}
}
func (n *instantNode) SandboxReady(*corev1.Pod) {}
func (n *instantNode) Finish(*corev1.Pod)       { n.finished <- struct{}{} }
func (n *instantNode) Watch(*corev1.Pod)        {}
func (n *instantNode) Forget(types.UID)         {}
func (n *instantNode) Container(types.UID, string, string) probes.State {
	return probes.State{Started: true, Ready: true}
}
func (n *instantNode) Ensure(context.Context, *corev1.Pod, *corev1.Container) error { return nil }

func (n *instantNode) Unmount(context.Context, *corev1.Pod) error    { return nil }
func (n *instantNode) RemoveDirs(context.Context, *corev1.Pod) error { return nil }

func (n *instantNode) Mounts(context.Context, *corev1.Pod, *corev1.Container, []string) ([]*proto.Mount, error) {
	return nil, nil
}

// noopHost is the rest of such a node.
type noopHost struct{ Objects }

func (noopHost) Event(kinds.Object, string, string, string)                  {}
func (noopHost) ContainerEvent(*corev1.Pod, string, string, string, string)  {}
func (noopHost) Register(context.Context, *corev1.Pod)                       {}
func (noopHost) Forget(types.UID)                                            {}
func (noopHost) Services(context.Context, string) ([]*corev1.Service, error) { return nil, nil }
func (noopHost) Create(*corev1.Pod) error                                    { return nil }
func (noopHost) Destroy(context.Context, types.UID) error                    { return nil }
func (noopHost) Unprepare(context.Context, *corev1.Pod) error                { return nil }

// BenchmarkPod is what a worker costs that starts a pod of two containers and stops it.
func BenchmarkPod(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		node := &instantNode{finished: make(chan struct{}, 1), started: make(chan struct{}, 1)}
		cfg := Config{
			Runtime: node, Cache: node, Status: node, Probes: node, Events: noopHost{},
			Host: Host{Images: node, Volumes: node, Cgroups: noopHost{}, Claims: noopHost{}, Objects: noopHost{}},
			Log:  slog.New(slog.DiscardHandler), Driver: Driver{Clock: clock.Clock{}, History: (*history.Recorder)(nil)},
		}
		s := NewWorkers(cfg)
		pod := podWithGraces(30, -1)
		pod.UID, pod.Spec.Containers = "u", []corev1.Container{{Name: "a"}, {Name: "b"}}
		s.Step(b.Context(), "u", Seen{Pod: pod})
		<-node.started
		marked := podWithGraces(30, 5)
		marked.UID, marked.Spec.Containers = "u", pod.Spec.Containers
		s.Step(b.Context(), "u", Seen{Pod: marked})
		<-node.finished
	}
}
