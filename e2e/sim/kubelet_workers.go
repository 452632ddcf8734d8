package sim

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// newReporter returns the product's reporter, which runs as tasks of the process.
func (k *kubeletProcess) newReporter() *status.Reporter {
	return status.NewReporter(status.Config{
		API: apiClient{k}, Copies: k.api.set, Clock: taskClock{k}, Tasks: k.tasks, Timing: k.of.timing.Status,
		Compat: k.of.compat, Pods: k.of.kinds.pods, Log: slog.New(slog.DiscardHandler),
	})
}

// newProber returns the product's prober, each of whose probes is a task of the process.
func (k *kubeletProcess) newProber() *probes.Prober {
	return probes.New(probes.Config{
		Runtime: runtimeClient{k}, Cache: cache{k}, Events: stubHost{k}, Clock: taskClock{k}, Tasks: k.tasks,
		Log: slog.New(slog.DiscardHandler),
	})
}

// newWorkers returns the product's pod workers, which run as tasks of the process.
func (k *kubeletProcess) newWorkers() *podworker.Workers {
	return podworker.NewWorkers(podworker.Config{
		Runtime: runtimeClient{k}, Cache: cache{k}, Status: k.reporter, Probes: k.prober, Events: stubHost{k},
		Host:   podworker.Host{Images: stubHost{k}, Volumes: k.volumes, Cgroups: stubHost{k}, Claims: stubHost{k}, Objects: stubHost{k}},
		Driver: podworker.Driver{Clock: taskClock{k}, Tasks: k.tasks, History: recorder{k}},
		Timing: k.of.timing.Worker, Compat: k.of.compat, Log: slog.New(slog.DiscardHandler), Seed: k.incarnation.seed,
	})
}

// sendEvent sends an event to a pod's worker.
func (k *kubeletProcess) sendEvent(uid types.UID, e podworker.Event) {
	k.untidied = true
	k.workers.Step(k.tasks.ctx, uid, e)
}

// hasWorker reports whether a pod has a worker.
func (k *kubeletProcess) hasWorker(uid types.UID) bool {
	_, is := k.workers.Get(uid)
	return is
}

// runTasks runs the process's tasks until all wait, and passes probe results to workers.
func (k *kubeletProcess) runTasks() {
	returned := k.tasks.returned
	for again := true; again; {
		k.tasks.proceed()
		select {
		case <-k.prober.Changes():
			for _, uid := range k.prober.Take() {
				k.workers.RefreshProbes(k.tasks.ctx, uid)
			}
			k.untidied = true
		default:
			again = false
		}
	}
	k.untidied = k.untidied || k.tasks.returned != returned
}

// startTask runs a shell of the product as a task, until the process ends.
func (k *kubeletProcess) startTask(run func(context.Context) error) {
	k.tasks.Group().Go(func() { _ = run(k.tasks.ctx) }) // it ends with that context
}

// cache implements podworker.Cache.
type cache struct{ k *kubeletProcess }

func (c cache) NewerThan(ctx context.Context, uid types.UID, than time.Time) (podstate.Pod, error) {
	for {
		if seen, fresh := c.k.podNewerThan(uid, than); fresh {
			return seen, nil
		}
		c.k.runtime.wanted = true
		if err := c.k.tasks.Wait(ctx, c.k.runtime.next); err != nil {
			return podstate.Pod{}, err
		}
	}
}

// Read lists sandboxes and containers by one call, also when the sandboxes are known.
func (c cache) Read(ctx context.Context, uid types.UID, _ []*proto.Sandbox) (podstate.Pod, error) {
	c.k.runtime.still = false
	question := c.k.runtime.views.Ask(c.k.incarnation.now)
	answer := c.k.call(ctx, List{UID: string(uid)}, runtimeTimeout)
	listing, ok := answer.Body.(Listing)
	if answer.Err != nil || !ok {
		return podstate.Pod{}, answer.Err
	}
	return c.k.runtime.views.RecordRead(question, uid, listing.Sandboxes, listing.Containers), nil
}

func (c cache) Last(uid types.UID) (podstate.Pod, bool) { return c.k.runtime.views.Last(uid) }

func (c cache) Forget(uid types.UID) { c.k.runtime.views.Forget(uid) }

// recorder implements podworker.History.
type recorder struct{ k *kubeletProcess }

func (r recorder) Now() history.MonoTime { return history.MonoTime(r.k.incarnation.now.UnixNano()) }

func (r recorder) Record(cause string, fact history.Fact) { r.k.out.Note(cause, fact) }

func (r recorder) RecordSince(began history.MonoTime, cause string, fact history.Fact) {
	r.k.out.Note(cause, TimedFact{fact, time.Unix(0, int64(began))})
}

// stubHost is a node that has every image, and no cgroups, claims and copies of other objects. Its
// events are dropped.
type stubHost struct{ k *kubeletProcess }

var errNoObjects = errors.New("the simulated kubelet has no copies of objects")

func (stubHost) Ensure(context.Context, *corev1.Pod, *corev1.Container) error { return nil }

func (stubHost) Forget(types.UID) {}

func (stubHost) Register(context.Context, *corev1.Pod) {}

func (stubHost) ConfigMap(context.Context, string, string) (*corev1.ConfigMap, error) {
	return nil, errNoObjects
}

func (stubHost) Secret(context.Context, string, string) (*corev1.Secret, error) {
	return nil, errNoObjects
}

func (stubHost) RuntimeHandler(context.Context, *corev1.Pod) (string, error) { return "", nil }

func (stubHost) Services(context.Context, string) ([]*corev1.Service, error) { return nil, nil }

func (stubHost) Create(*corev1.Pod) error { return nil }

func (stubHost) Destroy(context.Context, types.UID) error { return nil }

func (stubHost) Unprepare(context.Context, *corev1.Pod) error { return nil }

func (stubHost) Event(kinds.Object, string, string, string) {}

func (h stubHost) ContainerEvent(_ *corev1.Pod, _, _, reason, message string) {
	if reason == "Killing" && strings.HasSuffix(message, " probe, will be restarted") {
		h.k.of.kernel.counts.add("killed for a probe")
	}
}
