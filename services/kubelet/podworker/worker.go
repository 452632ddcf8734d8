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

// worker drives one machine: it takes an event, steps the machine, carries out the actions, and
// repeats. It has a goroutine only while there are actions, so that an idle pod costs
// none.
type worker struct {
	cfg Config

	mu        sync.Mutex
	machine   Machine
	actions   []Action
	running   bool
	interrupt context.CancelFunc
	stopped   chan struct{} // closed when the containers have stopped
	due       time.Time     // when the machine gets Due; zero for never
	// waiting is why containers could not be started at the last attempt; only the goroutine
	// replaces it.
	waiting map[string]corev1.ContainerStateWaiting

	// hooks runs preStop hooks, which may outlive the stop; the workers wait for them.
	hooks task.Group

	progress
	memory // of the goroutine alone
}

// progress is a worker's progress with the actions of its machine, for inspection only.
type progress struct {
	// Doing names the step under way; empty if the worker is idle. Since is when it began.
	Doing string
	Since time.Time
	// Grace is the grace of the last stop, in seconds.
	Grace int64
	// LastErr is the error of the last attempt, Failures how many failed in a row, and FailingSince
	// when the first of them failed.
	LastErr      string
	Failures     int
	FailingSince time.Time
}

// memory is what a worker's goroutine keeps from one action to the next. Only that goroutine uses
// it.
type memory struct {
	crashes     Crashes
	startTime   *metav1.Time // when this kubelet or an earlier one took the pod
	lastSync    time.Time
	retries     uint64
	endReported bool // the final status was reported
	needsRelist bool // the containers just started could not be read back
}

func newWorker(cfg Config, hooks task.Group) *worker {
	return &worker{cfg: cfg, hooks: hooks, memory: memory{crashes: Crashes{}}, stopped: make(chan struct{}), interrupt: func() {}}
}

// step steps the machine and reports whether a goroutine must be started for its actions. Interrupt
// is carried out here, because it ends what the goroutine is doing.
func (w *worker) step(e Event) (start bool) {
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
		w.actions = append(w.actions, action)
	}
	if len(w.actions) > 0 && !w.running {
		w.running = true
		return true
	}
	return false
}

// run carries out actions until none is left or ctx ends.
func (w *worker) run(ctx context.Context) {
	for {
		action := w.nextAction(ctx)
		if action == nil {
			return
		}
		answer := w.perform(ctx, action)
		w.setStep("")
		if answer != nil && ctx.Err() == nil {
			w.step(answer)
		}
	}
}

// nextAction returns the next action, or nil if none is left or ctx has ended. A Stop gets the
// grace of now: it may have become shorter since the machine asked for the stop (KBL-18).
func (w *worker) nextAction(ctx context.Context) Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.actions) == 0 || ctx.Err() != nil {
		w.running = false
		return nil
	}
	action := w.actions[0]
	w.actions = w.actions[1:]
	if stop, ok := action.(Stop); ok {
		stop.Grace = w.machine.Grace()
		return stop
	}
	return action
}

// perform carries out one action and returns the event that answers it, or nil.
func (w *worker) perform(ctx context.Context, action Action) Event {
	switch a := action.(type) {
	case Sync:
		w.setStep(inspect.StepSync)
		answer := w.sync(ctx, a.Pod)
		w.recordAttempt(ctx, a.Pod, "sync pod", answer.Err)
		return answer
	case Stop:
		w.setStep(inspect.StepStop)
		err := w.stop(ctx, a)
		w.recordAttempt(ctx, a.Pod, "stop pod", err)
		return Ended{err}
	case ReportEnd:
		w.reportEnd(a.Pod)
	case Clean:
		err := w.clean(ctx, a.Pod)
		w.recordAttempt(ctx, a.Pod, "clean up after pod", err)
		return Cleaned{err}
	case Confirm:
		w.cfg.Status.Finish(a.Pod)
	case Again:
		w.scheduleRetry(a)
	case Interrupt: // never queued: step has carried it out
	}
	return nil
}

// recordAttempt records the end of an attempt, and reports its error.
func (w *worker) recordAttempt(ctx context.Context, pod *corev1.Pod, what string, err error) {
	w.lastSync = w.cfg.Clock.Steady()
	w.recordResult(err)
	if err != nil && ctx.Err() == nil {
		w.cfg.History.Record("", history.KubeletStuck{Pod: podstate.Key(pod), UID: string(pod.UID), Doing: what, Err: err.Error()})
		w.cfg.Log.ErrorContext(ctx, "error syncing pod, skipping", "pod", podstate.Key(pod), "uid", pod.UID, "doing", what, "err", err)
	}
}

// setStep records the step that begins; empty if the worker becomes idle.
func (w *worker) setStep(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Doing, w.Since = step, w.cfg.Clock.Steady()
}

// recordResult counts consecutive failures of sync, stop and clean.
func (w *worker) recordResult(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.LastErr, w.Failures, w.FailingSince = "", 0, time.Time{}
		return
	}
	if w.Failures == 0 {
		w.FailingSince = w.cfg.Clock.Steady()
	}
	w.LastErr = err.Error()
	w.Failures++
}

// readPod returns what the runtime has of the pod. With AwaitRelist or needsRelist, the listing is
// newer than the last attempt (KBL-20).
func (w *worker) readPod(ctx context.Context, uid types.UID) (podstate.Pod, error) {
	var than time.Time
	if w.cfg.Timing.AwaitRelist || w.needsRelist {
		than = w.lastSync
	}
	seen, err := w.cfg.Cache.NewerThan(ctx, uid, than)
	w.needsRelist = w.needsRelist && err != nil
	return seen, err
}

// stop is round 2 (KBL-30, upstream's SyncTerminatingPod): report that the mark was seen, stop
// everything, check that nothing runs.
func (w *worker) stop(ctx context.Context, a Stop) error {
	w.cfg.History.Record("", history.KubeletTerm{Pod: podstate.Key(a.Pod), UID: string(a.Pod.UID), Grace: a.Grace})
	w.mu.Lock()
	w.Grace = a.Grace
	w.mu.Unlock()
	seen, err := w.readPod(ctx, a.Pod.UID)
	if err != nil {
		return err
	}
	if a.Known {
		w.reportStopping(a.Pod, seen, w.addProbes(a.Pod, seen, w.stoppingFacts()))
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
		return w.unprepareClaims(ctx, a.Pod)
	}
	seen, err = w.cfg.Cache.Read(ctx, a.Pod.UID, w.stoppedSandboxes(seen.Sandboxes))
	if err != nil {
		return err
	}
	if err := CheckStopped(seen); err != nil {
		return err
	}
	return w.unprepareClaims(ctx, a.Pod)
}

// unprepareClaims releases the node's resources that the pod's resource claims hold (KBL-30(6)).
func (w *worker) unprepareClaims(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	if err := w.cfg.Claims.Unprepare(ctx, pod); err != nil {
		return fmt.Errorf("unprepare dynamic resources of pod %s: %w", podstate.Key(pod), err)
	}
	return nil
}

// stoppedSandboxes returns sandboxes as a successful stop has left them, which saves a request with
// the fastest timing. Otherwise it returns nil: the runtime must be asked.
func (w *worker) stoppedSandboxes(sandboxes []*proto.Sandbox) []*proto.Sandbox {
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
	w.endReported = true
	w.reportStopping(pod, seen, w.endedFacts())
}

// reportStopping reports a pod that stops. If its deadline has passed it also sends the event, each
// time, as upstream does.
func (w *worker) reportStopping(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) {
	if facts.Evicts {
		w.cfg.Events.Event(pod, corev1.EventTypeNormal, facts.Reason, facts.Message)
	}
	w.cfg.Status.Report(pod, seen, facts)
}

// stoppingFacts returns the facts of a pod whose containers are about to stop.
func (w *worker) stoppingFacts() status.Facts {
	facts := w.endedFacts()
	facts.Ended, facts.MayRun = false, true
	return facts
}

func (w *worker) endedFacts() status.Facts {
	facts := status.Facts{Ended: true, Waiting: w.waiting}
	w.mu.Lock()
	defer w.mu.Unlock()
	if cause := w.machine.Cause(); cause != nil {
		facts.Reason, facts.Message, facts.Disrupted, facts.Evicts = cause.Reason, cause.Message, cause.Disrupts, cause.Expired
	}
	return facts
}

// clean releases what the pod used, in this order (KBL-60, upstream's SyncTerminatedPod).
func (w *worker) clean(ctx context.Context, pod *corev1.Pod) error {
	seen, err := w.readPod(ctx, pod.UID)
	if err != nil {
		return err
	}
	if w.cfg.Timing.AwaitRelist || !w.endReported {
		w.reportStopping(pod, seen, w.endedFacts())
	}
	w.setStep(inspect.StepUnmount)
	if err := w.cfg.Volumes.Unmount(ctx, pod); err != nil {
		return fmt.Errorf("unmount volumes of pod %s: %w", podstate.Key(pod), err)
	}
	w.setStep(inspect.StepRemoveDirs)
	if err := w.cfg.Volumes.RemoveDirs(ctx, pod); err != nil {
		return fmt.Errorf("remove volumes of pod %s: %w", podstate.Key(pod), err)
	}
	w.cfg.Objects.Forget(pod.UID)
	w.setStep(inspect.StepCgroup)
	if err := w.cfg.Cgroups.Destroy(ctx, pod.UID); err != nil {
		return err
	}
	if w.cfg.Compat.RemoveContainersFirst { // (ART-07)
		if err := w.removeFromRuntime(ctx, seen); err != nil {
			return err
		}
		w.cfg.Cache.Forget(pod.UID)
	}
	return nil
}

// removeFromRuntime removes all dead containers and sandboxes of the pod from the runtime (CRI-16).
func (w *worker) removeFromRuntime(ctx context.Context, seen podstate.Pod) error {
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

// scheduleRetry sets when the machine gets its next Due.
func (w *worker) scheduleRetry(a Again) {
	w.retries++
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = w.cfg.Clock.Steady().Add(w.cfg.Timing.RetryDelay(a, w.cfg.Seed, w.machine.Pod().UID, w.retries))
}

// RetryDelay returns the time until Due, for the n-th retry of the UID. The back-off and the resync
// are lengthened by up to Jitter of themselves, so that a node's pods do not retry in step.
func (t Timing) RetryDelay(a Again, seed uint64, uid types.UID, n uint64) time.Duration {
	if a.After > 0 {
		return a.After
	}
	after := t.Resync
	if a.Failed {
		after = t.Backoff
	}
	return after + time.Duration(float64(after)*t.Jitter*fraction(seed, uid, n))
}
