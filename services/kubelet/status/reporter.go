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

// API is what a reporter asks of the apiserver.
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
	// Batch is the period after which what was not accepted is tried again.
	Batch time.Duration
	// Lanes is how many pods' statuses are sent at a time, at least 1.
	Lanes int
}

// Config is what a Reporter works with.
type Config struct {
	API    API
	Copies Copies
	// Clock is the wall's if it is nil, and Tasks are goroutines.
	Clock  task.Clock
	Tasks  task.Scheduler
	Timing Timing
	Compat proto.Compat
	HostIP string
	Pods   kinds.Kind
	Log    *slog.Logger
}

// Reporter reports statuses until the API has accepted them. Only the latest of a UID
// counts; a pod created anew under an old name never inherits one.
//
// One step for a pod (KBL-63) is: look at the API's object, merge, update /status unless
// nothing differs, and delete the object if it may go. Upstream begins each step with a
// GET and sends a patch. Here the object is the newest that the node's watch or an
// earlier answer showed, and the update carries its revision: if it was not the newest
// after all, the apiserver answers with a conflict and the step begins again with a GET.
// So a step is never taken on an object that has changed since, for one request instead
// of two; and a pod that the watch has shown deleted needs no request at all, where
// upstream's GET would have been answered 404.
//
// # Order
//
// Steps of one UID never overlap. Different pods' may, on different lanes.
//
// # Blocking
//
// Only Run talks to the API; every other method returns at once.
type Reporter struct {
	cfg Config

	mu   sync.Mutex
	book *Book
	wake chan struct{}
}

// NewReporter reports nothing until Run.
func NewReporter(cfg Config) *Reporter {
	if cfg.Clock == nil {
		cfg.Clock = clock.Clock{}
	}
	cfg.Tasks = task.OrGoroutines(cfg.Tasks)
	return &Reporter{cfg: cfg, book: NewBook(cfg.Compat, cfg.HostIP), wake: make(chan struct{}, 1)}
}

// Report derives the pod's status and queues it if it differs from the last.
func (r *Reporter) Report(pod *corev1.Pod, seen podstate.Pod, facts Facts) corev1.PodStatus {
	r.mu.Lock()
	defer r.signal()
	return r.book.Report(pod, seen, facts, r.cfg.Clock.Now())
}

// Derive is the pod's status as Report would queue it.
func (r *Reporter) Derive(pod *corev1.Pod, seen podstate.Pod, facts Facts) corev1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Derive(pod, seen, facts, r.cfg.Clock.Now())
}

// Status is what was reported last of a pod; false for nothing.
func (r *Reporter) Status(uid types.UID) (corev1.PodStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Status(uid)
}

// SandboxReady reports that the sandbox of the pod is there, before any of its containers
// starts.
func (r *Reporter) SandboxReady(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.signal()
	r.book.SandboxReady(pod, r.cfg.Clock.Now())
}

// Reject reports that the node does not take the pod (KBL-09).
func (r *Reporter) Reject(pod *corev1.Pod, reason, message string) {
	r.mu.Lock()
	defer r.signal()
	r.book.Reject(pod, reason, message, r.cfg.Clock.Now())
}

// Finish reports that nothing of the pod is left on the node (KBL-62). If the pod is
// being deleted, the object goes.
func (r *Reporter) Finish(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.signal()
	r.book.Finish(pod)
}

// Refresh looks at a pod whose status the API shows changed, by others or by an answer
// to this reporter, and puts right what is the kubelet's.
func (r *Reporter) Refresh(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.signal()
	r.book.Refresh(pod)
}

// Forget drops what is queued for a UID that has left the API.
func (r *Reporter) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book.Forget(uid)
}

// Known are the UIDs with a status, in order.
func (r *Reporter) Known() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Known()
}

// signal unlocks, and wakes a lane if there is something for it.
func (r *Reporter) signal() {
	waiting := r.book.Waiting()
	r.mu.Unlock()
	if !waiting {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	lanes := r.cfg.Tasks.Group()
	defer lanes.Wait()
	for range max(r.cfg.Timing.Lanes, 1) {
		lanes.Go(func() { r.lane(ctx) })
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
	defer r.signal()
	r.book.Requeue(r.cfg.Copies)
}

func (r *Reporter) lane(ctx context.Context) {
	for {
		d := r.next()
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
		r.done(d)
	}
}

func (r *Reporter) next() *Delivery {
	r.mu.Lock()
	defer r.signal()
	return r.book.Next(r.cfg.Copies)
}

func (r *Reporter) done(d *Delivery) {
	r.mu.Lock()
	defer r.signal()
	r.book.Done(d)
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
		d.Answered(live, err)
		r.mu.Unlock()
	}
}

// send makes one request of the API.
func (r *Reporter) send(ctx context.Context, d *Delivery, request Request, pod *corev1.Pod) (*corev1.Pod, error) {
	var obj any
	var err error
	switch request {
	case Ask:
		obj, err = r.cfg.API.Get(ctx, r.target(d.Pod(), ""), metav1.GetOptions{})
	case Store:
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
