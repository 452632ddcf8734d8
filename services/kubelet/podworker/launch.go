package podworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/pulls"
	"github.com/podfall/podfall/services/kubelet/status"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// scriptAnnotation + a container's name says how a scripted container behaves.
const scriptAnnotation = "script.podfall.io/"

// sync makes a pod run, or finds that it has ended or that its time is up.
func (w *worker) sync(ctx context.Context, pod *corev1.Pod) Synced {
	if w.began = cmp.Or(w.began, pod.Status.StartTime); w.began == nil {
		w.began = &metav1.Time{Time: w.cfg.Clock.Now()} // which is about to be reported
	}
	left, limited := untilDeadline(pod, w.began.Time, w.cfg.Clock.Now())
	if !limited {
		return w.advance(ctx, pod)
	}
	if left <= 0 {
		cause := &Cause{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
		w.cfg.Events.Event(pod, corev1.EventTypeNormal, cause.Reason, cause.Message)
		w.tell(Kill{Cause: cause})
		return Synced{}
	}
	answer := w.advance(ctx, pod)
	if answer.After == 0 || left < answer.After {
		answer.After = left
	}
	return answer
}

// untilDeadline is how long a pod that began then may still be active, if that is limited.
func untilDeadline(pod *corev1.Pod, began, now time.Time) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	return began.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second).Sub(now), true
}

// advance does what the pod lacks.
func (w *worker) advance(ctx context.Context, pod *corev1.Pod) Synced {
	seen, err := w.look(ctx, pod.UID)
	if err != nil {
		return Synced{Err: err}
	}
	w.cfg.Probes.Watch(pod)
	w.cfg.Objects.Register(ctx, pod)
	plan := PlanStart(pod, Standing{
		Seen: seen, Crashes: w.crashes, Failed: w.failedProbes(pod, seen), Now: w.cfg.Clock.Now(),
	}, w.cfg.Timing.Crash)
	maps.DeleteFunc(w.refused, func(name string, _ corev1.ContainerStateWaiting) bool { return podstate.Alive(seen.Latest(name)) })
	held := plan.Waiting
	w.tellHeld(pod, held)
	plan.Waiting = w.waitingOf(held)
	w.waitFor(plan.Waiting)
	if len(plan.Kills) > 0 {
		return w.killFailed(ctx, pod, seen, plan)
	}
	starts := len(plan.Containers) > 0
	if !starts || w.cfg.Timing.AwaitRelist {
		w.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{Ended: plan.Ended, MayRun: true, Waiting: plan.Waiting}))
	}
	if plan.Ended {
		return Synced{Ended: true}
	}
	if err := w.prepare(ctx, pod); err != nil {
		return w.unprepared(pod, seen, plan, err)
	}
	if !starts {
		return Synced{After: plan.After}
	}
	seen, err = w.launch(ctx, pod, seen, &plan)
	plan.Waiting = w.waitingOf(held)
	w.waitFor(plan.Waiting)
	if err != nil && !w.cfg.Timing.AwaitRelist {
		w.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{MayRun: true, Waiting: plan.Waiting}))
	}
	if err == nil && !w.cfg.Timing.AwaitRelist {
		return w.reportLaunch(ctx, pod, seen, plan)
	}
	w.blind = true // the next run waits for a later look
	return Synced{After: plan.After, Err: err}
}

// reportLaunch reports without waiting for the relist to notice what was started. What
// has ended already, or lets the next one start because it is a sidecar, is looked at
// again at the next tick.
func (w *worker) reportLaunch(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan StartPlan) Synced {
	seen, err := w.cfg.Cache.Read(ctx, pod.UID, seen.Sandboxes)
	if err != nil {
		w.blind = true
		return Synced{Err: err}
	}
	w.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{MayRun: true, Waiting: plan.Waiting}))
	for _, start := range plan.Containers {
		if _, refused := w.refused[start.Spec.Name]; refused {
			continue
		}
		if podstate.Sidecar(start.Spec) || !podstate.Alive(seen.Latest(start.Spec.Name)) {
			return Synced{After: atOnce}
		}
	}
	return Synced{After: plan.After}
}

// runSandbox has the runtime make a sandbox, by the handler of the pod's class.
func (w *worker) runSandbox(ctx context.Context, pod *corev1.Pod, attempt uint32) (*proto.Sandbox, error) {
	handler, err := w.cfg.Objects.RuntimeHandler(ctx, pod)
	if err != nil {
		return nil, err
	}
	return w.cfg.Runtime.RunPodSandbox(ctx, &proto.RunPodSandboxRequest{
		PodName: pod.Name, PodNamespace: pod.Namespace, PodUid: string(pod.UID), Attempt: attempt,
		Labels: podLabels(pod), Annotations: pod.Annotations, RuntimeHandler: handler,
	})
}

// launch carries out a plan; it returns the pod with the sandboxes that it has now. A pull
// that is held back is no error: the plan is to be looked at again when it may be tried.
func (w *worker) launch(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan *StartPlan) (podstate.Pod, error) {
	if plan.Sandbox {
		sandbox, err := w.runSandbox(ctx, pod, plan.Attempt)
		if err != nil {
			w.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
			return seen, fmt.Errorf("failed to \"CreatePodSandbox\" for %q with CreatePodSandboxError: %w", podstate.Key(pod), err)
		}
		seen = podstate.New(pod.UID, append([]*proto.Sandbox{sandbox}, seen.Sandboxes...), seen.Containers)
	}
	var errs []error
	for _, start := range plan.Containers {
		err := w.startContainer(ctx, pod, seen.Sandbox(), start)
		was := w.refused[start.Spec.Name]
		w.note(start.Spec.Name, err)
		if pull, is := errors.AsType[*pulls.Error](err); is && pull.After > 0 {
			plan.wait(pull.After)
			if w.refused[start.Spec.Name] != was {
				plan.wait(soon) // which reports it
			}
			continue
		}
		errs = append(errs, err)
	}
	return seen, bracketed(errs)
}

// soon is when a pod is looked at again to report what has been found.
const soon = time.Second

// atOnce is how soon a worker looks again at what it has changed itself: the least that is
// sooner than the usual resync.
const atOnce = time.Nanosecond

// startError is a container that could not be started: the reason why it waits, and what
// the runtime said.
type startError struct {
	reason, container string
	err               error
}

// Error implements error in the words of upstream's sync results.
func (e *startError) Error() string {
	return fmt.Sprintf("failed to \"StartContainer\" for %q with %s: %q", e.container, e.reason, e.err.Error())
}

func (e *startError) Unwrap() error { return e.err }

// note remembers why a container could not be started, until it can.
func (w *worker) note(container string, err error) {
	refused, is := errors.AsType[*startError](err)
	if !is {
		delete(w.refused, container)
		return
	}
	w.refused[container] = corev1.ContainerStateWaiting{Reason: refused.reason, Message: refused.err.Error()}
}

// tellHeld tells people which containers are held back after a crash, once for each time.
func (w *worker) tellHeld(pod *corev1.Pod, held map[string]corev1.ContainerStateWaiting) {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if w.waiting[name] == held[name] { // only this goroutine writes it
			continue
		}
		w.cfg.Events.ContainerEvent(pod, name, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", name, pod.Name, pod.Namespace, pod.UID))
	}
}

// waitingOf are the containers that do not run for a reason of the kubelet's: those held
// back after a crash, and those that could not be started.
func (w *worker) waitingOf(held map[string]corev1.ContainerStateWaiting) map[string]corev1.ContainerStateWaiting {
	if len(w.refused) == 0 {
		return held
	}
	waiting := maps.Clone(w.refused)
	maps.Copy(waiting, held)
	return waiting
}

// unprepared reports a pod that waits for what its containers stand on.
func (w *worker) unprepared(pod *corev1.Pod, seen podstate.Pod, plan StartPlan, err error) Synced {
	if !w.cfg.Timing.AwaitRelist {
		w.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{MayRun: true, Waiting: plan.Waiting}))
	}
	answer := Synced{Err: err}
	if missing, is := errors.AsType[*volumes.NotReadyError](err); is {
		answer.After = missing.After
	}
	return answer
}

// prepare makes what the containers stand on, or brings it up to date. Only this can be
// interrupted (KBL-18).
func (w *worker) prepare(ctx context.Context, pod *corev1.Pod) error {
	if err := w.cfg.Cgroups.Create(pod); err != nil {
		return err
	}
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.interrupt = cancel
	stopping := w.machine.State() != Syncing
	w.mu.Unlock()
	if stopping {
		cancel()
	}
	return w.cfg.Volumes.Mount(ctx, pod)
}

func (w *worker) startContainer(ctx context.Context, pod *corev1.Pod, sandbox *proto.Sandbox, start ContainerStart) error {
	spec, id := start.Spec, start.Made
	if id == "" {
		var err error
		if id, err = w.createContainer(ctx, pod, sandbox, start); err != nil {
			return err
		}
	}
	if err := w.cfg.Runtime.StartContainer(ctx, id); err != nil && !w.hasBegun(ctx, pod, start) {
		w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return &startError{"RunContainerError", spec.Name, err}
	}
	w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Started", "Container started")
	return w.postStart(ctx, pod, spec, id)
}

// hasBegun reports whether a container that had been made runs since it was last looked at. It
// waits for the next listing, whose news has the pod looked at again.
func (w *worker) hasBegun(ctx context.Context, pod *corev1.Pod, start ContainerStart) bool {
	if start.Made == "" {
		return false
	}
	seen, err := w.cfg.Cache.NewerThan(ctx, pod.UID, w.cfg.Clock.Steady())
	return err == nil && podstate.Alive(seen.Latest(start.Spec.Name))
}

// createContainer makes a container with its image and returns its id.
func (w *worker) createContainer(
	ctx context.Context, pod *corev1.Pod, sandbox *proto.Sandbox, start ContainerStart,
) (string, error) {
	spec := start.Spec
	if err := w.cfg.Images.Ensure(ctx, pod, spec); err != nil {
		return "", w.withoutImage(pod, spec, err)
	}
	request, err := w.createRequest(ctx, pod, sandbox, start)
	if err != nil {
		w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return "", &startError{"CreateContainerConfigError", spec.Name, err}
	}
	id, err := w.cfg.Runtime.CreateContainer(ctx, request)
	if err != nil {
		w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return "", &startError{"CreateContainerError", spec.Name, err}
	}
	w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Created", "Container created")
	if start.Again {
		w.crashes.Restarted(start, w.cfg.Clock.Now(), w.cfg.Timing.Crash)
	}
	return id, nil
}

// withoutImage is a container whose image is not on the node.
func (w *worker) withoutImage(pod *corev1.Pod, spec *corev1.Container, err error) error {
	pull, is := errors.AsType[*pulls.Error](err)
	if !is {
		return err // the kubelet leaves
	}
	w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+pull.Reason)
	return &startError{pull.Reason, spec.Name, err}
}

func (w *worker) createRequest(
	ctx context.Context, pod *corev1.Pod, sandbox *proto.Sandbox, start ContainerStart,
) (*proto.CreateContainerRequest, error) {
	spec := start.Spec
	env, err := w.variables(ctx, pod, spec, sandbox.GetIp())
	if err != nil {
		return nil, err
	}
	subPaths, err := subPathsOf(spec, env)
	if err != nil {
		return nil, err
	}
	mounts, err := w.cfg.Volumes.Mounts(ctx, pod, spec, subPaths)
	if err != nil {
		return nil, err
	}
	labels := podLabels(pod)
	labels[podstate.LabelContainerName] = spec.Name
	annotations := map[string]string{"io.kubernetes.container.restartCount": strconv.Itoa(int(start.Attempt))}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		annotations["io.kubernetes.pod.terminationGracePeriod"] = strconv.FormatInt(*grace, 10)
	}
	return &proto.CreateContainerRequest{
		SandboxId: sandbox.GetId(), Name: spec.Name, Attempt: start.Attempt, Image: spec.Image,
		Command: expandAll(spec.Command, env), Args: expandAll(spec.Args, env), WorkingDir: spec.WorkingDir, Env: env, Mounts: mounts,
		Labels: labels, Annotations: annotations, Script: pod.Annotations[scriptAnnotation+spec.Name],
		Resources: resourcesOf(spec), CgroupParent: cgroupOf(pod), StopSignal: stopSignalOf(spec),
		Stdin: spec.Stdin, StdinOnce: spec.StdinOnce, Tty: spec.TTY, Ports: podstate.Ports(pod),
	}, nil
}

// stopSignalOf is the stop signal that the pod asks for; empty leaves it to the image
// (KBL-55). It is given when the container is created, and cannot change later.
func stopSignalOf(spec *corev1.Container) string {
	if spec.Lifecycle == nil || spec.Lifecycle.StopSignal == nil {
		return ""
	}
	return string(*spec.Lifecycle.StopSignal)
}

func podLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{
		podstate.LabelPodName: pod.Name, podstate.LabelPodNamespace: pod.Namespace, podstate.LabelPodUID: string(pod.UID),
	}
}
