package podworker

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/task"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/status"
)

// worker is the shell around one machine: it receives an event, steps, carries out what
// the machine wants, and repeats. It has a goroutine only while there is something to
// carry out, so that a running pod costs none.
type worker struct {
	cfg Config

	mu        sync.Mutex
	machine   Machine
	todo      []Action
	running   bool
	interrupt context.CancelFunc
	stopped   chan struct{} // closed when the containers have stopped
	due       time.Time     // when Due is to be told; zero for never
	// waiting is why containers could not be started at the last attempt; only the goroutine
	// replaces it.
	waiting map[string]corev1.ContainerStateWaiting

	// hooks runs preStop hooks, which may outlive the stop; the workers wait for them.
	hooks task.Group

	progress
	memory // of the goroutine alone
}

// progress is how far a worker is with what its machine wants; it is for who asks, and
// decides nothing.
type progress struct {
	// Doing is the step that is under way, empty for none, and Since its beginning.
	Doing string
	Since time.Time
	// Grace is what the last stop began with, in seconds.
	Grace int64
	// Err is why the last attempt failed, Failed how many have in a row, and First when
	// the first of them did.
	Err    string
	Failed int
	First  time.Time
}

// memory is what a worker's goroutine keeps from one action to the next.
type memory struct {
	crashes  Crashes
	began    *metav1.Time // when this kubelet, or one before it, took the pod up
	lastSync time.Time
	failures uint64
	reported bool // the end's status
	blind    bool // what was started could not be read back
}

func newWorker(cfg Config, hooks task.Group) *worker {
	return &worker{cfg: cfg, hooks: hooks, memory: memory{crashes: Crashes{}}, stopped: make(chan struct{}), interrupt: func() {}}
}

// tell steps the machine and reports whether a goroutine has to be started for what it
// wants. An Interrupt is carried out here and now: what it ends is what the goroutine
// is at.
func (w *worker) tell(e Event) (start bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.machine.State()
	next, actions := w.machine.Step(e)
	w.machine = next
	if before < Stopped && next.State() >= Stopped {
		close(w.stopped)
	}
	for _, action := range actions {
		if _, now := action.(Interrupt); now {
			w.interrupt()
			continue
		}
		w.todo = append(w.todo, action)
	}
	if len(w.todo) > 0 && !w.running {
		w.running = true
		return true
	}
	return false
}

// work carries out actions until none is left or ctx ends.
func (w *worker) work(ctx context.Context) {
	for {
		action := w.take(ctx)
		if action == nil {
			return
		}
		answer := w.carryOut(ctx, action)
		w.at("")
		if answer != nil && ctx.Err() == nil {
			w.tell(answer)
		}
	}
}

// take is the next action; nil when none is left or ctx has ended. A stop takes up the grace of
// when it begins: it may have become shorter since the machine asked for the stop (KBL-18).
func (w *worker) take(ctx context.Context) Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.todo) == 0 || ctx.Err() != nil {
		w.running = false
		return nil
	}
	action := w.todo[0]
	w.todo = w.todo[1:]
	if stop, ok := action.(Stop); ok {
		stop.Grace = w.machine.Grace()
		return stop
	}
	return action
}

// carryOut does what the machine wants and returns the event that answers it, if any.
func (w *worker) carryOut(ctx context.Context, action Action) Event {
	switch a := action.(type) {
	case Sync:
		w.at(inspect.StepSync)
		answer := w.sync(ctx, a.Pod)
		w.synced(ctx, a.Pod, "sync pod", answer.Err)
		return answer
	case Stop:
		w.at(inspect.StepStop)
		err := w.stop(ctx, a)
		w.synced(ctx, a.Pod, "stop pod", err)
		return Ended{err}
	case ReportEnd:
		w.reportEnd(a.Pod)
	case Clean:
		err := w.clean(ctx, a.Pod)
		w.synced(ctx, a.Pod, "clean up after pod", err)
		return Cleaned{err}
	case Confirm:
		w.cfg.Status.Finish(a.Pod)
	case Again:
		w.again(a)
	case Interrupt: // never queued: tell has carried it out
	}
	return nil
}

func (w *worker) synced(ctx context.Context, pod *corev1.Pod, what string, err error) {
	w.lastSync = w.cfg.Clock.Steady()
	w.came(err)
	if err != nil && ctx.Err() == nil {
		w.cfg.History.Record("", history.KubeletStuck{Pod: podstate.Key(pod), UID: string(pod.UID), Doing: what, Err: err.Error()})
		w.cfg.Log.ErrorContext(ctx, "error syncing pod, skipping", "pod", podstate.Key(pod), "uid", pod.UID, "doing", what, "err", err)
	}
}

// at notes the step that begins; empty for none.
func (w *worker) at(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Doing, w.Since = step, w.cfg.Clock.Steady()
}

// came notes what an attempt came to.
func (w *worker) came(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.Err, w.Failed, w.First = "", 0, time.Time{}
		return
	}
	if w.Failed == 0 {
		w.First = w.cfg.Clock.Steady()
	}
	w.Err = err.Error()
	w.Failed++
}

// look is what the runtime holds of the pod, as of later than the last sync where the
// timing asks for that (KBL-20).
func (w *worker) look(ctx context.Context, uid types.UID) (podstate.Pod, error) {
	var than time.Time
	if w.cfg.Timing.AwaitRelist || w.blind {
		than = w.lastSync
	}
	seen, err := w.cfg.Cache.NewerThan(ctx, uid, than)
	w.blind = w.blind && err != nil
	return seen, err
}

// stop is round 2 (KBL-30): say that the mark was seen, stop everything, make sure.
func (w *worker) stop(ctx context.Context, a Stop) error {
	w.cfg.History.Record("", history.KubeletTerm{Pod: podstate.Key(a.Pod), UID: string(a.Pod.UID), Grace: a.Grace})
	w.mu.Lock()
	w.Grace = a.Grace
	w.mu.Unlock()
	seen, err := w.look(ctx, a.Pod.UID)
	if err != nil {
		return err
	}
	if a.Known {
		w.report(a.Pod, seen, w.facts(a.Pod, seen, w.stopFacts()))
		w.cfg.Probes.Watch(a.Pod) // only readiness is asked for from now on
	}
	plan := PlanStop(a.Pod, seen, &a.Grace)
	if err := w.stopPod(ctx, a.Pod, plan); err != nil {
		if a.Known && ctx.Err() == nil {
			w.cfg.Events.Event(a.Pod, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: "+err.Error())
		}
		return err
	}
	w.cfg.Probes.Forget(a.Pod.UID)
	if len(plan.Containers)+len(plan.Sandboxes) == 0 {
		return w.unprepare(ctx, a.Pod)
	}
	seen, err = w.cfg.Cache.Read(ctx, a.Pod.UID, w.surely(seen.Sandboxes))
	if err != nil {
		return err
	}
	if err := Violation(seen); err != nil {
		return err
	}
	return w.unprepare(ctx, a.Pod)
}

// unprepare gives back what the pod's resource claims hold on the node (KBL-30(6)).
func (w *worker) unprepare(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	if err := w.cfg.Claims.Unprepare(ctx, pod); err != nil {
		return fmt.Errorf("unprepare dynamic resources of pod %s: %w", podstate.Key(pod), err)
	}
	return nil
}

// surely are sandboxes as a successful stop has left them, which saves asking when the
// timing is at its fastest; otherwise nil: ask.
func (w *worker) surely(sandboxes []*proto.Sandbox) []*proto.Sandbox {
	if w.cfg.Timing.AwaitRelist {
		return nil
	}
	stopped := make([]*proto.Sandbox, 0, len(sandboxes))
	for _, s := range sandboxes {
		stopped = append(stopped, &proto.Sandbox{
			Id: s.GetId(), PodName: s.GetPodName(), PodNamespace: s.GetPodNamespace(), PodUid: s.GetPodUid(),
			Attempt: s.GetAttempt(), State: proto.SandboxState_SANDBOX_STATE_NOTREADY, Ip: s.GetIp(),
			CreatedAtUnixNano: s.GetCreatedAtUnixNano(), Labels: s.GetLabels(), Annotations: s.GetAnnotations(),
		})
	}
	return stopped
}

// reportEnd reports that the containers have stopped for good (KBL-30(7)).
func (w *worker) reportEnd(pod *corev1.Pod) {
	seen, _ := w.cfg.Cache.Last(pod.UID)
	w.reported = true
	w.report(pod, seen, w.endFacts())
}

// report reports a pod that stops. A pod that has outlived its deadline is told of each time, as
// upstream does.
func (w *worker) report(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) {
	if facts.Evicts {
		w.cfg.Events.Event(pod, corev1.EventTypeNormal, facts.Reason, facts.Message)
	}
	w.cfg.Status.Report(pod, seen, facts)
}

// stopFacts are of a pod whose containers are about to stop.
func (w *worker) stopFacts() status.Facts {
	facts := w.endFacts()
	facts.Ended, facts.MayRun = false, true
	return facts
}

func (w *worker) endFacts() status.Facts {
	facts := status.Facts{Ended: true, Waiting: w.waiting}
	w.mu.Lock()
	defer w.mu.Unlock()
	if cause := w.machine.Cause(); cause != nil {
		facts.Reason, facts.Message, facts.Disrupted, facts.Evicts = cause.Reason, cause.Message, cause.Disrupts, cause.Expired
	}
	return facts
}

// clean releases what the pod used, in this order (KBL-60).
func (w *worker) clean(ctx context.Context, pod *corev1.Pod) error {
	seen, err := w.look(ctx, pod.UID)
	if err != nil {
		return err
	}
	if w.cfg.Timing.AwaitRelist || !w.reported {
		w.report(pod, seen, w.endFacts())
	}
	w.at(inspect.StepUnmount)
	if err := w.cfg.Volumes.Unmount(ctx, pod); err != nil {
		return fmt.Errorf("unmount volumes of pod %s: %w", podstate.Key(pod), err)
	}
	w.at(inspect.StepRemoveDirs)
	if err := w.cfg.Volumes.RemoveDirs(ctx, pod); err != nil {
		return fmt.Errorf("remove volumes of pod %s: %w", podstate.Key(pod), err)
	}
	w.cfg.Objects.Forget(pod.UID)
	w.at(inspect.StepCgroup)
	if err := w.cfg.Cgroups.Destroy(ctx, pod.UID); err != nil {
		return err
	}
	if w.cfg.Compat.RemoveContainersFirst { // (ART-07)
		if err := w.purge(ctx, seen); err != nil {
			return err
		}
		w.cfg.Cache.Forget(pod.UID)
	}
	return nil
}

// purge removes everything dead of the pod from the runtime (CRI-16).
func (w *worker) purge(ctx context.Context, seen podstate.Pod) error {
	for _, c := range seen.Containers {
		if err := w.cfg.Runtime.RemoveContainer(ctx, c.GetId()); err != nil {
			return fmt.Errorf("remove container %s: %w", c.GetId(), err)
		}
	}
	for _, s := range seen.Sandboxes {
		if err := w.cfg.Runtime.RemovePodSandbox(ctx, s.GetId()); err != nil {
			return fmt.Errorf("remove sandbox %s: %w", s.GetId(), err)
		}
	}
	return nil
}

// again notes when the machine wants to be told Due.
func (w *worker) again(a Again) {
	w.failures++
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = w.cfg.Clock.Steady().Add(w.cfg.Timing.Pause(a, w.cfg.Seed, w.machine.Pod().UID, w.failures))
}

// Pause is how long until Due is told, for the n-th time to the machine of the UID. A
// back-off is spread over half its length, so that a node's pods do not retry in step.
func (t Timing) Pause(a Again, seed uint64, uid types.UID, n uint64) time.Duration {
	if a.After > 0 {
		return a.After
	}
	after := t.Resync
	if a.Failed {
		after = t.Backoff
	}
	return after + time.Duration(float64(after)*t.Jitter*fraction(seed, uid, n))
}
