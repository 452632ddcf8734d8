package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/status"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// synced is told what a sync came to.
type synced func(now time.Time, answer podworker.Synced, out Out)

// sync makes a pod run, or finds that it has ended.
func (k *kubeletProcess) sync(now time.Time, w *podWorker, pod *corev1.Pod, out Out, then synced) {
	timing := k.of.timing.Worker
	k.look(now, w, out, func(now time.Time, seen podstate.Pod, out Out) {
		k.probe(now, pod, out)
		facts := k.facts(pod, seen, status.Facts{MayRun: true, Waiting: w.waiting})
		derived := k.book.Derive(pod, seen, facts, out.Shows(now))
		plan := podworker.PlanStart(pod, podworker.Standing{
			Seen: seen, Crashes: w.crashes, Probed: k.probedOf(pod, seen), RestartAll: status.RestartsAll(derived), Now: out.Shows(now),
		}, timing.Crash)
		final := status.IsFinal(derived.Phase)
		if final || !plan.Starts() || timing.AwaitRelist {
			k.book.Report(pod, seen, facts, out.Shows(now))
		}
		if final {
			then(now, podworker.Synced{Ended: true}, out)
			return
		}
		k.prepare(now, w, pod, out, func(now time.Time, missing *volumes.NotReadyError, out Out) {
			if missing != nil {
				then(now, podworker.Synced{Err: missing, After: missing.After}, out)
				return
			}
			k.stopFirst(now, w, plan, out, then, func(now time.Time, out Out) { k.launch(now, w, pod, seen, plan, out, then) })
		})
	})
}

// launch starts what a plan starts, and remembers why the others wait.
func (k *kubeletProcess) launch(now time.Time, w *podWorker, pod *corev1.Pod, seen podstate.Pod, plan podworker.StartPlan, out Out, then synced) {
	timing := k.of.timing.Worker
	w.waiting = plan.Waiting
	after := timing.Hold(plan.After, k.begun.seed, w.uid, w.failures)
	if !plan.Starts() {
		then(now, podworker.Synced{After: after}, out)
		return
	}
	l := &launch{k: k, w: w, pod: pod, plan: plan, box: seen.Sandbox()}
	l.then = func(now time.Time, err error, out Out) {
		w.blind = true // the next run waits for a later look
		then(now, podworker.Synced{After: after, Err: err}, out)
	}
	l.next(now, out)
}

// launch carries out a StartPlan, one call after the other.
type launch struct {
	k    *kubeletProcess
	w    *podWorker
	pod  *corev1.Pod
	plan podworker.StartPlan
	box  *proto.Sandbox
	err  error
	then func(time.Time, error, Out)
}

func (l *launch) next(now time.Time, out Out) {
	switch {
	case l.plan.Sandbox:
		l.plan.Sandbox = false
		request := &proto.RunPodSandboxRequest{
			PodName: l.pod.Name, PodNamespace: l.pod.Namespace, PodUid: string(l.pod.UID), Attempt: l.plan.Attempt, Labels: podLabels(l.pod),
		}
		l.k.ask(now, RunSandbox{request}, runtimeTimeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
			made, ok := answer.Body.(*proto.Sandbox)
			if answer.Err != nil || !ok {
				l.then(now, fmt.Errorf("failed to \"CreatePodSandbox\" for %q with CreatePodSandboxError: %w", podstate.Key(l.pod), answer.Err), out)
				return
			}
			l.box = made
			l.k.book.SandboxReady(l.pod, out.Shows(now))
			l.next(now, out)
		})
	case len(l.plan.Containers) > 0:
		start := l.plan.Containers[0]
		l.plan.Containers = l.plan.Containers[1:]
		if start.Made == "" {
			l.create(now, start, out)
			return
		}
		l.begin(now, start, start.Made, out)
	default:
		l.then(now, l.err, out)
	}
}

// failed remembers why a container does not run, and goes on with the next.
func (l *launch) failed(now time.Time, start podworker.ContainerStart, reason string, err error, out Out) {
	l.err = fmt.Errorf("failed to \"StartContainer\" for %q with %s: %q", start.Spec.Name, reason, err.Error())
	l.next(now, out)
}

func (l *launch) create(now time.Time, start podworker.ContainerStart, out Out) {
	labels := podLabels(l.pod)
	labels[podstate.LabelContainerName] = start.Spec.Name
	request := &proto.CreateContainerRequest{
		SandboxId: l.box.GetId(), Name: start.Spec.Name, Attempt: start.Attempt, Image: start.Spec.Image,
		Command: start.Spec.Command, Args: start.Spec.Args, Labels: labels, Script: l.pod.Annotations[scriptAnnotation+start.Spec.Name],
	}
	if start.Spec.Lifecycle != nil && start.Spec.Lifecycle.StopSignal != nil {
		request.StopSignal = string(*start.Spec.Lifecycle.StopSignal)
	}
	l.k.ask(now, CreateContainer{request}, runtimeTimeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
		id, ok := answer.Body.(string)
		if answer.Err != nil || !ok {
			l.failed(now, start, "CreateContainerError", answer.Err, out)
			return
		}
		if start.Again {
			l.w.crashes.Restarted(start, out.Shows(now), l.k.of.timing.Worker.Crash)
		}
		l.begin(now, start, id, out)
	})
}

// begin starts a container that has been made.
func (l *launch) begin(now time.Time, start podworker.ContainerStart, id string, out Out) {
	l.k.ask(now, StartContainer{id}, runtimeTimeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
		if answer.Err != nil {
			l.failed(now, start, "RunContainerError", answer.Err, out)
			return
		}
		l.postStart(now, start.Spec, id, out, func(now time.Time, err error, out Out) {
			if err != nil {
				l.failed(now, start, "PostStartHookError", err, out)
				return
			}
			l.next(now, out)
		})
	})
}

func podLabels(pod *corev1.Pod) map[string]string {
	return map[string]string{
		podstate.LabelPodName: pod.Name, podstate.LabelPodNamespace: pod.Namespace, podstate.LabelPodUID: string(pod.UID),
	}
}
