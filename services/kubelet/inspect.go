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

// observer records every call to the apiserver and the runtime, for the history, the metrics and
// inspection.
type observer struct {
	*Contacts
	history *history.Recorder
	node    string
	began   time.Time
	counts  kubeletMetrics
	// lastSeen returns what the runtime had of a pod at the last listing, if there was one.
	lastSeen func(types.UID) (podstate.Pod, bool)
}

func newObserver(cfg Config) *observer {
	return &observer{
		Contacts: NewContacts(cfg.Clock.Steady), history: cfg.History, node: cfg.Node, began: cfg.Clock.Steady(), counts: newKubeletMetrics(cfg.Metrics, cfg.Node),
	}
}

// beginCall records a call of the runtime. The returned function records its result.
func (w *observer) beginCall(method, id string) (answered func(error)) {
	called, note := clock.Clock{}.Now(), w.BeginCall(method, id)
	return func(err error) {
		w.counts.countCall(method, called, err)
		note(err)
	}
}

// inspect returns the kubelet's report about its internal state.
func (p *parts) inspect(w *observer) inspect.Kubelet {
	report := inspect.Kubelet{
		Self: inspect.Self{Process: "kubelet/" + p.cfg.Node, Boot: p.cfg.Boot, Began: w.began, Now: p.cfg.Clock.Now()},
		Node: p.cfg.Node, Problems: p.relister.Problems(),
	}
	report.PodsRevision = p.set.TakenRevision() // before the workers are read, so that they are at least as new
	for _, view := range p.workers.All() {
		report.Pods = append(report.Pods, WorkerReport(view, p.volumes.RemoveDirsError(view.UID)))
	}
	w.Fill(&report)
	return report
}

// observedRuntime is a runtime whose calls are recorded while they last, because a hanging call
// blocks a pod.
type observedRuntime struct {
	runtimeapi.Runtime
	*observer
}

// RunPodSandbox implements runtimeapi.Sandboxes.
func (r observedRuntime) RunPodSandbox(ctx context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	answered := r.beginCall("RunPodSandbox", "")
	box, err := r.Runtime.RunPodSandbox(ctx, req)
	answered(err)
	return box, err
}

// StopPodSandbox implements runtimeapi.Sandboxes.
func (r observedRuntime) StopPodSandbox(ctx context.Context, id string) error {
	answered := r.beginCall("StopPodSandbox", id)
	err := r.Runtime.StopPodSandbox(ctx, id)
	answered(err)
	return err
}

// ListPodSandbox implements runtimeapi.Sandboxes.
func (r observedRuntime) ListPodSandbox(ctx context.Context, podUID string) ([]*proto.Sandbox, error) {
	answered := r.beginCall("ListPodSandbox", "")
	boxes, err := r.Runtime.ListPodSandbox(ctx, podUID)
	answered(err)
	return boxes, err
}

// PodSandboxStatus implements runtimeapi.Sandboxes.
func (r observedRuntime) PodSandboxStatus(ctx context.Context, id string) (*proto.Sandbox, error) {
	answered := r.beginCall("PodSandboxStatus", id)
	box, err := r.Runtime.PodSandboxStatus(ctx, id)
	answered(err)
	return box, err
}

// StartContainer implements runtimeapi.Containers.
func (r observedRuntime) StartContainer(ctx context.Context, id string) error {
	answered := r.beginCall("StartContainer", id)
	err := r.Runtime.StartContainer(ctx, id)
	answered(err)
	return err
}

// StopContainer implements runtimeapi.Containers.
func (r observedRuntime) StopContainer(ctx context.Context, id string, timeoutSeconds int64) error {
	answered := r.beginCall("StopContainer", id)
	err := r.Runtime.StopContainer(ctx, id, timeoutSeconds)
	answered(err)
	return err
}

// ListContainers implements runtimeapi.Containers.
func (r observedRuntime) ListContainers(ctx context.Context, podUID string) ([]*proto.Container, error) {
	answered := r.beginCall("ListContainers", "")
	all, err := r.Runtime.ListContainers(ctx, podUID)
	answered(err)
	return all, err
}

// ContainerStatus implements runtimeapi.Containers.
func (r observedRuntime) ContainerStatus(ctx context.Context, id string) (*proto.Container, error) {
	answered := r.beginCall("ContainerStatus", id)
	container, err := r.Runtime.ContainerStatus(ctx, id)
	answered(err)
	return container, err
}

// ExecSync implements runtimeapi.Tasks.
func (r observedRuntime) ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	answered := r.beginCall("ExecSync", req.GetContainerId())
	answer, err := r.Runtime.ExecSync(ctx, req)
	answered(err)
	return answer, err
}

// PullImage implements runtimeapi.Images.
func (r observedRuntime) PullImage(ctx context.Context, image string) (int64, error) {
	answered := r.beginCall("PullImage", "")
	size, err := r.Runtime.PullImage(ctx, image)
	answered(err)
	return size, err
}

// CreateContainer implements runtimeapi.Containers.
func (r observedRuntime) CreateContainer(ctx context.Context, req *proto.CreateContainerRequest) (string, error) {
	answered := r.beginCall("CreateContainer", "")
	id, err := r.Runtime.CreateContainer(ctx, req)
	answered(err)
	return id, err
}

// RemoveContainer implements runtimeapi.Containers.
func (r observedRuntime) RemoveContainer(ctx context.Context, id string) error {
	answered := r.beginCall("RemoveContainer", id)
	err := r.Runtime.RemoveContainer(ctx, id)
	answered(err)
	return err
}

// RemovePodSandbox implements runtimeapi.Sandboxes.
func (r observedRuntime) RemovePodSandbox(ctx context.Context, id string) error {
	answered := r.beginCall("RemovePodSandbox", id)
	err := r.Runtime.RemovePodSandbox(ctx, id)
	answered(err)
	return err
}
