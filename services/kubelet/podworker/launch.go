package podworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// scriptAnnotation + a container's name is the annotation with the script of a scripted container.
const scriptAnnotation = "script.podfall.io/"

// sync makes a pod run, or finds that it has ended or that its deadline has passed (upstream's
// SyncPod).
func (w *worker) sync(ctx context.Context, pod *corev1.Pod) Synced {
	if w.startTime = cmp.Or(w.startTime, pod.Status.StartTime); w.startTime == nil {
		w.startTime = &metav1.Time{Time: w.cfg.Clock.Now()} // not in the API yet
	}
	left, limited := untilDeadline(pod, w.startTime.Time, w.cfg.Clock.Now())
	if !limited {
		return w.startMissing(ctx, pod)
	}
	if left <= 0 {
		cause := &Cause{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline", Expired: true}
		w.cfg.Events.Event(pod, corev1.EventTypeNormal, cause.Reason, cause.Message)
		w.step(Kill{Cause: cause})
		return Synced{}
	}
	answer := w.startMissing(ctx, pod)
	if answer.After == 0 || left < answer.After {
		answer.After = left
	}
	return answer
}

// untilDeadline returns how long a pod with this start time may still be active. Limited is false
// without activeDeadlineSeconds.
func untilDeadline(pod *corev1.Pod, began, now time.Time) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	return began.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second).Sub(now), true
}

// startMissing creates and starts what the pod lacks. The status shows the results of earlier
// attempts.
func (w *worker) startMissing(ctx context.Context, pod *corev1.Pod) Synced {
	seen, err := w.readPod(ctx, pod.UID)
	if err != nil {
		return Synced{Err: err}
	}
	w.cfg.Probes.Watch(pod)
	w.cfg.Objects.Register(ctx, pod)
	facts := w.addProbes(pod, seen, status.Facts{MayRun: true, Waiting: w.waiting})
	now := w.cfg.Status.Derive(pod, seen, facts)
	plan := PlanStart(pod, StartInput{
		Seen: seen, Crashes: w.crashes, Probes: w.probeStates(pod, seen), RestartAll: status.RestartsAll(now), Now: w.cfg.Clock.Now(),
	}, w.cfg.Timing.Crash)
	if status.IsFinal(now.Phase) || !plan.Starts() || w.cfg.Timing.AwaitRelist {
		w.cfg.Status.Report(pod, seen, facts)
	}
	if status.IsFinal(now.Phase) {
		return Synced{Ended: true}
	}
	if err := w.prepareHost(ctx, pod); err != nil {
		return w.reportUnprepared(pod, seen, err)
	}
	if stopped, err := w.stopBeforeStart(ctx, pod, seen, plan); err != nil || stopped && !plan.Starts() {
		w.needsRelist = true // the next run waits for a later look
		return Synced{After: minRetry, Err: err}
	}
	seen, err = w.startContainers(ctx, pod, seen, &plan)
	answer := Synced{After: w.cfg.Timing.HoldDelay(plan.After, w.cfg.Seed, pod.UID, w.retries), Err: err}
	switch {
	case !plan.Starts():
		w.reportWaiting(pod, seen)
	case w.cfg.Timing.AwaitRelist:
		w.needsRelist = true
	case err != nil:
		w.needsRelist = true
		w.reportWaiting(pod, seen)
	default:
		return w.reportStarted(ctx, pod, seen, plan, answer)
	}
	return answer
}

// reportWaiting reports at once why containers do not run, unless the next relist reports it.
func (w *worker) reportWaiting(pod *corev1.Pod, seen podstate.Pod) {
	if !w.cfg.Timing.AwaitRelist {
		w.cfg.Status.Report(pod, seen, w.addProbes(pod, seen, status.Facts{MayRun: true, Waiting: w.waiting}))
	}
}

// reportStarted reports started containers without waiting for a relist. If a container has ended
// already, or is a sidecar that lets the next one start, the pod is synced again at the next tick.
func (w *worker) reportStarted(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan StartPlan, answer Synced) Synced {
	seen, err := w.cfg.Cache.Read(ctx, pod.UID, seen.Sandboxes)
	if err != nil {
		w.needsRelist = true
		return Synced{Err: err}
	}
	w.reportWaiting(pod, seen)
	for _, start := range plan.Containers {
		if _, refused := w.waiting[start.Spec.Name]; refused {
			continue
		}
		if podstate.IsSidecar(start.Spec) || !podstate.Alive(seen.Latest(start.Spec.Name)) {
			return Synced{After: minRetry}
		}
	}
	return answer
}

// runSandbox creates a sandbox with the runtime handler of the pod's RuntimeClass.
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

// startContainers carries out the starts of a plan. It returns the pod with its present sandboxes.
// A pull in back-off is not an error: the plan is made again when the pull may be tried.
func (w *worker) startContainers(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan *StartPlan) (podstate.Pod, error) {
	if plan.Sandbox {
		sandbox, err := w.runSandbox(ctx, pod, plan.Attempt)
		if err != nil {
			w.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
			return seen, fmt.Errorf("failed to \"CreatePodSandbox\" for %q with CreatePodSandboxError: %w", podstate.Key(pod), err)
		}
		seen = podstate.New(pod.UID, append([]*proto.Sandbox{sandbox}, seen.Sandboxes...), seen.Containers)
		if w.cfg.Timing.AwaitRelist { // else the status of the containers follows at once
			w.cfg.Status.SandboxReady(pod)
		}
	}
	w.recordBackoffs(pod, plan.Waiting)
	var errs []error
	for _, start := range plan.Containers {
		err := w.startContainer(ctx, pod, seen.Sandbox(), start)
		w.recordStart(start.Spec.Name, err)
		if pull, is := errors.AsType[*pulls.Error](err); is && pull.After > 0 {
			plan.limitAfter(pull.After)
		} else {
			errs = append(errs, err)
		}
		if err != nil && start.Blocks {
			break
		}
	}
	return seen, joinErrors(errs)
}

// minRetry is the shortest time until a worker syncs again, after it changed something itself.
const minRetry = time.Nanosecond

// reportUnprepared reports a pod that waits for its volumes or its cgroup.
func (w *worker) reportUnprepared(pod *corev1.Pod, seen podstate.Pod, err error) Synced {
	w.reportWaiting(pod, seen)
	answer := Synced{Err: err}
	if missing, is := errors.AsType[*volumes.NotReadyError](err); is {
		answer.After = missing.After
	}
	return answer
}

// prepareHost creates the pod's cgroup, and mounts or refreshes its volumes. Only this part of a
// sync can be interrupted (KBL-18).
func (w *worker) prepareHost(ctx context.Context, pod *corev1.Pod) error {
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
	spec, id := start.Spec, start.CreatedID
	if id == "" {
		var err error
		if id, err = w.createContainer(ctx, pod, sandbox, start); err != nil {
			return err
		}
	}
	if err := w.cfg.Runtime.StartContainer(ctx, id); err != nil && !w.isRunningNow(ctx, pod, start) {
		w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+messageOf(err))
		return &startError{"RunContainerError", spec.Name, err}
	}
	w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Started", "Container started")
	return w.runPostStart(ctx, pod, spec, id)
}

// isRunningNow reports whether a container that had been created runs by now. It waits for the next
// listing. A change in that listing syncs the pod again.
func (w *worker) isRunningNow(ctx context.Context, pod *corev1.Pod, start ContainerStart) bool {
	if start.CreatedID == "" {
		return false
	}
	seen, err := w.cfg.Cache.NewerThan(ctx, pod.UID, w.cfg.Clock.Steady())
	return err == nil && podstate.Alive(seen.Latest(start.Spec.Name))
}

// createContainer pulls the image, creates a container and returns its id.
func (w *worker) createContainer(
	ctx context.Context, pod *corev1.Pod, sandbox *proto.Sandbox, start ContainerStart,
) (string, error) {
	spec := start.Spec
	if start.Again {
		w.crashes.RecordRestart(start, w.cfg.Clock.Now(), w.cfg.Timing.Crash)
	}
	if err := w.cfg.Images.Ensure(ctx, pod, spec); err != nil {
		return "", w.imageError(pod, spec, err)
	}
	request, err := w.createRequest(ctx, pod, sandbox, start)
	if err != nil {
		w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+messageOf(err))
		return "", &startError{"CreateContainerConfigError", spec.Name, err}
	}
	id, err := w.cfg.Runtime.CreateContainer(ctx, request)
	if err != nil {
		w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+messageOf(err))
		return "", &startError{"CreateContainerError", spec.Name, err}
	}
	w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeNormal, "Created", "Container created")
	return id, nil
}

// imageError returns why a container whose image is not on the node cannot start.
func (w *worker) imageError(pod *corev1.Pod, spec *corev1.Container, err error) error {
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
	if err := verifyRunAsNonRoot(pod, spec); err != nil {
		return nil, err
	}
	left := budget(maxEnvironment)
	env, err := w.makeEnvironment(ctx, pod, spec, sandbox.GetIp(), &left)
	if err != nil {
		return nil, err
	}
	command, err := expandAll("command", spec.Command, env, &left)
	if err != nil {
		return nil, err
	}
	args, err := expandAll("args", spec.Args, env, &left)
	if err != nil {
		return nil, err
	}
	subPaths, err := expandSubPaths(spec, env)
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
		Command: command, Args: args, WorkingDir: spec.WorkingDir, Env: env, Mounts: mounts,
		Labels: labels, Annotations: annotations, Script: pod.Annotations[scriptAnnotation+spec.Name],
		Resources: resourcesOf(spec), CgroupParent: cgroupOf(pod), StopSignal: stopSignalOf(spec),
		Stdin: spec.Stdin, StdinOnce: spec.StdinOnce, Tty: spec.TTY, Ports: podstate.Ports(pod),
	}, nil
}

// stopSignalOf returns the container's stop signal; empty leaves it to the image (KBL-55). It is set when
// the container is created, and cannot change later.
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
