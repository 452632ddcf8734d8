package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/task"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// API is the part of the apiserver that a reporter uses.
type API interface {
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error)
	Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error)
}

// Copies are the node's pods as a watch shows them.
type Copies interface {
	// Get reports false until a complete list has been seen; after that a nil pod
	// means that the API has no such UID.
	Get(uid types.UID) (pod *corev1.Pod, known bool)
}

// Timing is how statuses are sent.
type Timing struct {
	// Batch is the interval at which unaccepted statuses are retried.
	Batch time.Duration
	// Lanes is how many pods' statuses are sent at the same time, at least 1.
	Lanes int
}

// Config holds what a Reporter uses.
type Config struct {
	API    API
	Copies Copies
	// Clock defaults to the wall clock, Tasks to goroutines.
	Clock  task.Clock
	Tasks  task.Scheduler
	Timing Timing
	Compat proto.Compat
	HostIP string
	Pods   kinds.Kind
	Log    *slog.Logger
}

// Reporter reports statuses until the API has accepted them. Only the latest of a UID counts. A pod
// created anew under an old name never inherits a status.
//
// One step for a pod (KBL-63) is: get the API's object, merge, update /status unless nothing
// differs, and delete the object if that is allowed. Upstream begins each step with a GET and sends
// a patch. Here the object is the newest that the node's watch or an earlier answer showed, and the
// update carries its revision. If the object was not the newest, the apiserver answers with a
// conflict and the step begins again with a GET. So a step never acts on a stale object, for one
// request instead of two. A pod that the watch has shown deleted needs no request, where upstream's
// GET would be answered 404.
//
// # Order
//
// Steps of one UID never overlap. Steps of different pods may, on different lanes.
//
// # Blocking
//
// Only Run calls the API; every other method returns at once.
type Reporter struct {
	cfg Config

	mu    sync.Mutex
	queue *Queue
	wake  chan struct{}
}

// NewReporter returns a reporter that sends nothing until Run.
func NewReporter(cfg Config) *Reporter {
	if cfg.Clock == nil {
		cfg.Clock = clock.Clock{}
	}
	cfg.Tasks = task.OrGoroutines(cfg.Tasks)
	return &Reporter{cfg: cfg, queue: NewQueue(cfg.Compat, cfg.HostIP), wake: make(chan struct{}, 1)}
}

// Report derives the pod's status, and queues it if it differs from the last one.
func (r *Reporter) Report(pod *corev1.Pod, seen podstate.Pod, facts Facts) corev1.PodStatus {
	r.mu.Lock()
	defer r.unlockAndWake()
	return r.queue.Report(pod, seen, facts, r.cfg.Clock.Now())
}

// Derive returns the pod's status as Report would queue it.
func (r *Reporter) Derive(pod *corev1.Pod, seen podstate.Pod, facts Facts) corev1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.Derive(pod, seen, facts, r.cfg.Clock.Now())
}

// Status returns the last reported status of a pod; false for none.
func (r *Reporter) Status(uid types.UID) (corev1.PodStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.Status(uid)
}

// SandboxReady reports that the pod's sandbox is ready, before any container starts.
func (r *Reporter) SandboxReady(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.unlockAndWake()
	r.queue.SandboxReady(pod, r.cfg.Clock.Now())
}

// Reject reports that the node rejects the pod (KBL-09).
func (r *Reporter) Reject(pod *corev1.Pod, reason, message string) {
	r.mu.Lock()
	defer r.unlockAndWake()
	r.queue.Reject(pod, reason, message, r.cfg.Clock.Now())
}

// Finish reports that nothing of the pod is left on the node (KBL-62). If the pod is being deleted,
// its object is then deleted.
func (r *Reporter) Finish(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.unlockAndWake()
	r.queue.Finish(pod)
}

// Refresh queues a pod whose status changed in the API, by others or by an answer to this reporter,
// to restore the kubelet's fields.
func (r *Reporter) Refresh(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.unlockAndWake()
	r.queue.Refresh(pod)
}

// Forget drops the status of a UID that has left the API.
func (r *Reporter) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.Forget(uid)
}

// Known returns the UIDs with a status, sorted.
func (r *Reporter) Known() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.Known()
}

// unlockAndWake unlocks, and wakes a lane if a delivery waits.
func (r *Reporter) unlockAndWake() {
	waiting := r.queue.HasNext()
	r.mu.Unlock()
	if !waiting {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run sends statuses until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	lanes := r.cfg.Tasks.Group()
	defer lanes.Wait()
	for range max(r.cfg.Timing.Lanes, 1) {
		lanes.Go(func() { r.runLane(ctx) })
	}
	for {
		if err := r.cfg.Clock.Sleep(ctx, r.cfg.Timing.Batch); err != nil {
			return err
		}
		r.requeue()
	}
}

// requeue queues everything that the API has not accepted, and finished pods that were
// marked since.
func (r *Reporter) requeue() {
	r.mu.Lock()
	defer r.unlockAndWake()
	r.queue.Requeue(r.cfg.Copies)
}

// runLane sends one delivery after the other until ctx ends.
func (r *Reporter) runLane(ctx context.Context) {
	for {
		d := r.nextDelivery()
		if d == nil {
			if r.cfg.Tasks.Wait(ctx, r.wake) != nil {
				return
			}
			continue
		}
		if err := r.deliver(ctx, d); err != nil && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "the pod's status was not accepted; trying again later",
				"pod", podstate.Key(d.Pod()), "uid", d.Pod().UID, "err", err) // (KBL-65)
		}
		r.endDelivery(d)
	}
}

func (r *Reporter) nextDelivery() *Delivery {
	r.mu.Lock()
	defer r.unlockAndWake()
	return r.queue.Next(r.cfg.Copies)
}

func (r *Reporter) endDelivery(d *Delivery) {
	r.mu.Lock()
	defer r.unlockAndWake()
	r.queue.Done(d)
}

// deliver carries out a delivery.
func (r *Reporter) deliver(ctx context.Context, d *Delivery) error {
	for {
		r.mu.Lock()
		request, pod := d.Next(r.cfg.Clock.Now())
		r.mu.Unlock()
		if request == None {
			return d.Err()
		}
		live, err := r.send(ctx, d, request, pod)
		if request == Confirm {
			r.cfg.Log.DebugContext(ctx, "asked for the pod's end: nothing of it is left", "pod", podstate.Key(pod), "uid", pod.UID, "round", 3, "err", err)
		}
		r.mu.Lock()
		d.HandleAnswer(live, err)
		r.mu.Unlock()
	}
}

// send makes one request of the API.
func (r *Reporter) send(ctx context.Context, d *Delivery, request Request, pod *corev1.Pod) (*corev1.Pod, error) {
	var obj any
	var err error
	switch request {
	case Fetch:
		obj, err = r.cfg.API.Get(ctx, r.target(d.Pod(), ""), metav1.GetOptions{})
	case UpdateStatus:
		obj, err = r.cfg.API.Update(ctx, r.target(pod, "status"), pod, metav1.UpdateOptions{})
	case Confirm:
		_, err = r.cfg.API.Delete(ctx, r.target(pod, ""), Confirmation(pod))
		return nil, err
	case None:
	}
	if err != nil {
		return nil, err
	}
	live, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the API answered with a %T", obj)
	}
	return live, nil
}

func (r *Reporter) target(pod *corev1.Pod, subresource string) podapi.Target {
	return podapi.Target{Kind: r.cfg.Pods, Namespace: pod.Namespace, Name: pod.Name, Subresource: subresource}
}
