package status

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podset"
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
	Clock  clock.Clock
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

	mu      sync.Mutex
	entries map[types.UID]*entry
	queue   []types.UID
	wake    chan struct{}
}

type entry struct {
	pod      *corev1.Pod
	status   corev1.PodStatus
	facts    Facts
	finished bool
	// version counts changes; accepted is the version that the API has.
	version, accepted uint64
	// answer is the API's object as it last answered.
	answer       *corev1.Pod
	queued, busy bool
}

// NewReporter reports nothing until Run.
func NewReporter(cfg Config) *Reporter {
	return &Reporter{cfg: cfg, entries: map[types.UID]*entry{}, wake: make(chan struct{}, 1)}
}

// Report derives the pod's status and queues it if it differs from the last.
func (r *Reporter) Report(pod *corev1.Pod, seen podstate.Pod, facts Facts) corev1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(pod)
	status := Derive(Input{
		Pod: pod, Seen: seen, Old: e.status, Facts: facts,
		HostIP: r.cfg.HostIP, Compat: r.cfg.Compat, Now: r.cfg.Clock.Now(),
	})
	r.set(e, pod, status, facts)
	return status
}

// Reject reports that the node does not take the pod (KBL-09).
func (r *Reporter) Reject(pod *corev1.Pod, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := *pod.Status.DeepCopy()
	status.Phase, status.Reason, status.Message = corev1.PodFailed, reason, message
	if r.cfg.Compat.TracksGeneration {
		status.ObservedGeneration = pod.Generation
	}
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: r.cfg.Clock.Now().Truncate(time.Second)}
	}
	r.set(r.entry(pod), pod, status, Facts{Ended: true})
}

// Finish reports that nothing of the pod is left on the node (KBL-62). If the pod is
// being deleted, the object goes.
func (r *Reporter) Finish(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(pod)
	e.finished = true
	e.version++
	r.set(e, pod, Terminate(pod, e.status, r.cfg.Compat), Facts{Ended: true})
	r.enqueue(pod.UID, e)
}

// Refresh looks at a pod whose status the API shows changed, by others or by an answer
// to this reporter, and puts right what is the kubelet's.
func (r *Reporter) Refresh(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[pod.UID]
	if e == nil || (e.answer != nil && e.answer.ResourceVersion == pod.ResourceVersion) {
		return
	}
	r.enqueue(pod.UID, e)
}

// Forget drops what is queued for a UID that has left the API.
func (r *Reporter) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, uid)
}

// Known are the UIDs with a status.
func (r *Reporter) Known() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	uids := make([]types.UID, 0, len(r.entries))
	for uid := range r.entries {
		uids = append(uids, uid)
	}
	return uids
}

func (r *Reporter) entry(pod *corev1.Pod) *entry {
	e := r.entries[pod.UID]
	if e == nil {
		e = &entry{pod: pod, status: pod.Status}
		r.entries[pod.UID] = e
	}
	return e
}

func (r *Reporter) set(e *entry, pod *corev1.Pod, status corev1.PodStatus, facts Facts) {
	e.pod = pod
	if e.version > 0 && e.facts.MayRun == facts.MayRun && apiequality.Semantic.DeepEqual(e.status, status) {
		return
	}
	e.status, e.facts = status, facts
	e.version++
	r.enqueue(pod.UID, e)
}

func (r *Reporter) enqueue(uid types.UID, e *entry) {
	if e.queued {
		return
	}
	e.queued = true
	if e.busy {
		return // its lane puts it back
	}
	r.queue = append(r.queue, uid)
	r.signal()
}

func (r *Reporter) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	defer lanes.Wait()
	for range max(r.cfg.Timing.Lanes, 1) {
		lanes.Go(func() { r.lane(ctx) })
	}
	batch := r.cfg.Clock.Ticker(r.cfg.Timing.Batch)
	defer batch.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-batch.C:
			r.requeue()
		}
	}
}

// requeue queues everything that the API has not accepted, and finished pods that were
// marked since.
func (r *Reporter) requeue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, e := range r.entries {
		copied, _ := r.cfg.Copies.Get(uid)
		live := podset.Newer(copied, e.answer)
		due := live != nil && Deletable(live, e.finished, r.cfg.Compat.PublishesTerminalPhase)
		if e.version != e.accepted || due {
			r.enqueue(uid, e)
		}
	}
}

func (r *Reporter) lane(ctx context.Context) {
	for {
		uid, e := r.next()
		if e == nil {
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			}
			continue
		}
		r.mu.Lock()
		now := *e
		r.mu.Unlock()
		if err := r.step(ctx, uid, e, now); err != nil && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "the pod's status was not accepted; trying again later",
				"pod", podstate.Key(now.pod), "uid", uid, "err", err) // (KBL-65)
		}
		r.done(uid, e)
	}
}

func (r *Reporter) next() (types.UID, *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		uid := r.queue[0]
		r.queue = r.queue[1:]
		if e := r.entries[uid]; e != nil && e.queued {
			e.queued, e.busy = false, true
			if len(r.queue) > 0 {
				r.signal()
			}
			return uid, e
		}
	}
	return "", nil
}

func (r *Reporter) done(uid types.UID, e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.busy = false
	if e.queued && r.entries[uid] == e {
		r.queue = append(r.queue, uid)
		r.signal()
	}
}

// tries is how often one step begins again after a conflict.
const tries = 5

// step takes one pod, as the entry says it is now, one step (KBL-63).
func (r *Reporter) step(ctx context.Context, uid types.UID, e *entry, now entry) error {
	live, err := r.settle(ctx, uid, now)
	if err != nil || live == nil {
		return err
	}
	r.accept(e, now.version, live)
	if !Deletable(live, now.finished, r.cfg.Compat.PublishesTerminalPhase) {
		return nil
	}
	return r.confirm(ctx, live, e, now.version)
}

// settle brings the status to the API and returns the object that has it: nil when there
// is none any more. After the last conflict the error is that conflict.
func (r *Reporter) settle(ctx context.Context, uid types.UID, e entry) (*corev1.Pod, error) {
	live, err := r.look(ctx, uid, e)
	for try := 1; live != nil && err == nil; try++ {
		stored, err := r.store(ctx, live, e)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil // nobody is left to be told
		case !apierrors.IsConflict(err) || try == tries:
			return stored, err
		}
		if live, err = r.ask(ctx, uid, e); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// look is the API's object of the UID: nil when there is none, or when its name belongs
// to another UID, whose pod this status must never touch.
func (r *Reporter) look(ctx context.Context, uid types.UID, e entry) (*corev1.Pod, error) {
	copied, known := r.cfg.Copies.Get(uid)
	if known && copied == nil {
		return nil, nil // no object and no error: the watch showed it deleted
	}
	if live := podset.Newer(copied, e.answer); live != nil {
		return live, nil
	}
	return r.ask(ctx, uid, e)
}

// ask is look by a GET.
func (r *Reporter) ask(ctx context.Context, uid types.UID, e entry) (*corev1.Pod, error) {
	obj, err := r.cfg.API.Get(ctx, r.target(e.pod, ""), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // ignored, as upstream does
	}
	if err != nil {
		return nil, fmt.Errorf("get pod %s: %w", podstate.Key(e.pod), err)
	}
	live, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("get pod %s: the API answered with a %T", podstate.Key(e.pod), obj)
	}
	if live.UID != uid {
		r.Forget(uid)
		return nil, nil // another pod has the name now
	}
	return live, nil
}

// store updates the status unless nothing differs, and returns the API's object.
func (r *Reporter) store(ctx context.Context, live *corev1.Pod, e entry) (*corev1.Pod, error) {
	merged := Merge(live, e.status, e.facts, r.cfg.Clock.Now())
	if apiequality.Semantic.DeepEqual(live.Status, merged) {
		return live, nil
	}
	update := *live // the metadata and the spec are shared, and only read
	update.Status = merged
	obj, err := r.cfg.API.Update(ctx, r.target(live, "status"), &update, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("update status of pod %s: %w", podstate.Key(live), err)
	}
	stored, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("update status of pod %s: the API answered with a %T", podstate.Key(live), obj)
	}
	return stored, nil
}

func (r *Reporter) accept(e *entry, version uint64, live *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.answer = live
	e.accepted = max(e.accepted, version)
}

func (r *Reporter) target(pod *corev1.Pod, subresource string) podapi.Target {
	return podapi.Target{Kind: r.cfg.Pods, Namespace: pod.Namespace, Name: pod.Name, Subresource: subresource}
}
