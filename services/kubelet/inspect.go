package kubelet

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// witness knows how the kubelet gets on with the apiserver and the runtime: it stands in
// the way of every call, and tells the history and whoever inspects the kubelet.
type witness struct {
	*Contacts
	history *history.Recorder
	node    string
	began   time.Time
	counts  counts
	// last is what the runtime had of a pod when it was last asked, if it has been at all.
	last func(types.UID) (podstate.Pod, bool)
}

func newWitness(cfg Config) *witness {
	return &witness{
		Contacts: NewContacts(cfg.Clock.Steady), history: cfg.History, node: cfg.Node, began: cfg.Clock.Steady(), counts: newCounts(cfg.Metrics, cfg.Node),
	}
}

// call notes a call of the runtime, and gives back what notes its outcome.
func (w *witness) call(method, id string) (answered func(error)) {
	called, note := clock.Clock{}.Now(), w.Calls(method, id)
	return func(err error) {
		w.counts.called(method, called, err)
		note(err)
	}
}

// tell is what the kubelet says of its insides.
func (p *parts) tell(w *witness) inspect.Kubelet {
	said := inspect.Kubelet{
		Self: inspect.Self{Process: "kubelet/" + p.cfg.Node, Boot: p.cfg.Boot, Began: w.began, Now: p.cfg.Clock.Now()},
		Node: p.cfg.Node, Problems: p.relister.Problems(),
	}
	said.PodsRevision = p.set.Taken() // before the workers are looked at: what it has, they have
	for _, view := range p.workers.All() {
		said.Pods = append(said.Pods, WorkOf(view, p.volumes.Stays(view.UID)))
	}
	w.Tell(&said)
	return said
}

// watched is a runtime whose calls are noted while they last: those that may hang, and
// keep a pod.
type watched struct {
	runtimeapi.Runtime
	*witness
}

// RunPodSandbox implements runtimeapi.Sandboxes.
func (r watched) RunPodSandbox(ctx context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	answered := r.call("RunPodSandbox", "")
	box, err := r.Runtime.RunPodSandbox(ctx, req)
	answered(err)
	return box, err
}

// StopPodSandbox implements runtimeapi.Sandboxes.
func (r watched) StopPodSandbox(ctx context.Context, id string) error {
	answered := r.call("StopPodSandbox", id)
	err := r.Runtime.StopPodSandbox(ctx, id)
	answered(err)
	return err
}

// ListPodSandbox implements runtimeapi.Sandboxes.
func (r watched) ListPodSandbox(ctx context.Context, podUID string) ([]*proto.Sandbox, error) {
	answered := r.call("ListPodSandbox", "")
	boxes, err := r.Runtime.ListPodSandbox(ctx, podUID)
	answered(err)
	return boxes, err
}

// PodSandboxStatus implements runtimeapi.Sandboxes.
func (r watched) PodSandboxStatus(ctx context.Context, id string) (*proto.Sandbox, error) {
	answered := r.call("PodSandboxStatus", id)
	box, err := r.Runtime.PodSandboxStatus(ctx, id)
	answered(err)
	return box, err
}

// StartContainer implements runtimeapi.Containers.
func (r watched) StartContainer(ctx context.Context, id string) error {
	answered := r.call("StartContainer", id)
	err := r.Runtime.StartContainer(ctx, id)
	answered(err)
	return err
}

// StopContainer implements runtimeapi.Containers.
func (r watched) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	answered := r.call("StopContainer", id)
	err := r.Runtime.StopContainer(ctx, id, timeoutSeconds)
	answered(err)
	return err
}

// ListContainers implements runtimeapi.Containers.
func (r watched) ListContainers(ctx context.Context, podUID string) ([]*proto.Container, error) {
	answered := r.call("ListContainers", "")
	all, err := r.Runtime.ListContainers(ctx, podUID)
	answered(err)
	return all, err
}

// ContainerStatus implements runtimeapi.Containers.
func (r watched) ContainerStatus(ctx context.Context, id string) (*proto.Container, error) {
	answered := r.call("ContainerStatus", id)
	container, err := r.Runtime.ContainerStatus(ctx, id)
	answered(err)
	return container, err
}

// ExecSync implements runtimeapi.Tasks.
func (r watched) ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	answered := r.call("ExecSync", req.GetContainerId())
	answer, err := r.Runtime.ExecSync(ctx, req)
	answered(err)
	return answer, err
}

// PullImage implements runtimeapi.Images.
func (r watched) PullImage(ctx context.Context, image string) (int64, error) {
	answered := r.call("PullImage", "")
	size, err := r.Runtime.PullImage(ctx, image)
	answered(err)
	return size, err
}

// CreateContainer implements runtimeapi.Containers.
func (r watched) CreateContainer(ctx context.Context, req *proto.CreateContainerRequest) (string, error) {
	answered := r.call("CreateContainer", "")
	id, err := r.Runtime.CreateContainer(ctx, req)
	answered(err)
	return id, err
}

// RemoveContainer implements runtimeapi.Containers.
func (r watched) RemoveContainer(ctx context.Context, id string) error {
	answered := r.call("RemoveContainer", id)
	err := r.Runtime.RemoveContainer(ctx, id)
	answered(err)
	return err
}

// RemovePodSandbox implements runtimeapi.Sandboxes.
func (r watched) RemovePodSandbox(ctx context.Context, id string) error {
	answered := r.call("RemovePodSandbox", id)
	err := r.Runtime.RemovePodSandbox(ctx, id)
	answered(err)
	return err
}
