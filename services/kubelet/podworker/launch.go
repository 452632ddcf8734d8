package podworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/status"
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
	plan := PlanStart(pod, Standing{
		Seen: seen, Crashes: w.crashes, Failed: w.failedProbes(pod, seen), Now: w.cfg.Clock.Now(),
	}, w.cfg.Timing.Crash)
	plan.Waiting = w.waitingOf(plan)
	w.waitFor(plan.Waiting)
	if len(plan.Kills) > 0 {
		return w.killFailed(ctx, pod, seen, plan)
	}
	starts := len(plan.Containers) > 0
	if !starts || w.cfg.Timing.AwaitRelist {
		w.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{Ended: plan.Ended, MayRun: true, Waiting: plan.Waiting}))
	}
	if plan.Ended || !starts {
		return Synced{Ended: plan.Ended, After: plan.After}
	}
	seen, err = w.launch(ctx, pod, seen, plan)
	plan.Waiting = w.waitingOf(plan)
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
		if podstate.Sidecar(start.Spec) || !podstate.Alive(seen.Latest(start.Spec.Name)) {
			return Synced{After: time.Nanosecond}
		}
	}
	return Synced{After: plan.After}
}

// launch carries out a plan; it returns the pod with the sandboxes that it has now.
func (w *worker) launch(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan StartPlan) (podstate.Pod, error) {
	if err := w.prepare(ctx, pod); err != nil {
		w.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedMount", err.Error())
		return seen, err
	}
	if plan.Sandbox {
		sandbox, err := w.cfg.Runtime.RunPodSandbox(ctx, &proto.RunPodSandboxRequest{
			PodName: pod.Name, PodNamespace: pod.Namespace, PodUid: string(pod.UID), Attempt: plan.Attempt,
			Labels: podLabels(pod), Annotations: pod.Annotations, RuntimeHandler: deref(pod.Spec.RuntimeClassName),
		})
		if err != nil {
			w.cfg.Events.Event(pod, corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
			return seen, fmt.Errorf("failed to \"CreatePodSandbox\" for %q with CreatePodSandboxError: %w", podstate.Key(pod), err)
		}
		seen = podstate.New(pod.UID, append([]*proto.Sandbox{sandbox}, seen.Sandboxes...), seen.Containers)
	}
	var errs []error
	for _, start := range plan.Containers {
		err := w.startContainer(ctx, pod, seen.Sandbox(), start)
		w.note(start.Spec.Name, err)
		errs = append(errs, err)
	}
	return seen, bracketed(errs)
}

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

// waitingOf are the containers that do not run for a reason of the kubelet's: those held
// back after a crash, and those that could not be started.
func (w *worker) waitingOf(plan StartPlan) map[string]corev1.ContainerStateWaiting {
	if len(w.refused) == 0 {
		return plan.Waiting
	}
	waiting := maps.Clone(w.refused)
	maps.Copy(waiting, plan.Waiting)
	return waiting
}

// prepare makes what the containers stand on. Only this can be interrupted (KBL-18).
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
	spec := start.Spec
	w.cfg.Events.Container(pod, spec.Name, corev1.EventTypeNormal, "Pulled",
		fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", spec.Image))
	request, err := w.createRequest(pod, sandbox, start)
	if err != nil {
		w.cfg.Events.Container(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return &startError{"CreateContainerConfigError", spec.Name, err}
	}
	id, err := w.cfg.Runtime.CreateContainer(ctx, request)
	if err != nil {
		w.cfg.Events.Container(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return &startError{"CreateContainerError", spec.Name, err}
	}
	w.cfg.Events.Container(pod, spec.Name, corev1.EventTypeNormal, "Created", "Container created")
	if start.Again {
		w.crashes[spec.Name] = w.crashes[spec.Name].next(start.Finished, w.cfg.Clock.Now(), w.cfg.Timing.Crash)
	}
	if err := w.cfg.Runtime.StartContainer(ctx, id); err != nil {
		w.cfg.Events.Container(pod, spec.Name, corev1.EventTypeWarning, "Failed", "Error: "+err.Error())
		return &startError{"RunContainerError", spec.Name, err}
	}
	w.cfg.Events.Container(pod, spec.Name, corev1.EventTypeNormal, "Started", "Container started")
	return w.postStart(ctx, pod, spec, id)
}

func (w *worker) createRequest(pod *corev1.Pod, sandbox *proto.Sandbox, start ContainerStart) (*proto.CreateContainerRequest, error) {
	spec := start.Spec
	env, err := environment(pod, spec, sandbox.GetIp())
	if err != nil {
		return nil, err
	}
	labels := podLabels(pod)
	labels[podstate.LabelContainerName] = spec.Name
	annotations := map[string]string{"io.kubernetes.container.restartCount": strconv.Itoa(int(start.Attempt))}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		annotations["io.kubernetes.pod.terminationGracePeriod"] = strconv.FormatInt(*grace, 10)
	}
	request := &proto.CreateContainerRequest{
		SandboxId: sandbox.GetId(), Name: spec.Name, Attempt: start.Attempt, Image: spec.Image,
		Command: expandAll(spec.Command, env), Args: expandAll(spec.Args, env), WorkingDir: spec.WorkingDir, Env: env,
		Labels: labels, Annotations: annotations, Script: pod.Annotations[scriptAnnotation+spec.Name],
	}
	for _, mount := range spec.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name == mount.Name {
				request.Mounts = append(request.Mounts, &proto.Mount{
					HostPath: w.cfg.Volumes.Path(pod.UID, volume), ContainerPath: mount.MountPath, ReadOnly: mount.ReadOnly,
				})
			}
		}
	}
	return request, nil
}

func podLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{
		podstate.LabelPodName: pod.Name, podstate.LabelPodNamespace: pod.Namespace, podstate.LabelPodUID: string(pod.UID),
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
