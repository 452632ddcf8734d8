package podworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// StopPlan is what one attempt to stop a pod does: all containers at once, and when the
// last of them has answered, the sandboxes in turn, even if a container failed (KBL-32).
type StopPlan struct {
	Containers []ContainerStop
	Sandboxes  []string
}

// ContainerStop is one rung: stop this container within Grace seconds, hooks and waiting
// included.
type ContainerStop struct {
	ID, Name string
	Grace    int64
	// PreStop is run first; nil for none.
	PreStop *corev1.LifecycleHandler
	// After are the containers that have to be stopped before.
	After []string
	// Why is the message of the event; empty for the usual one.
	Why string
	// Err is set for a container that the pod's spec does not name: it is not stopped.
	Err error
}

// PlanStop plans the stop of what runs of the pod. Override is the worker's grace in
// seconds; nil leaves each container its own.
func PlanStop(pod *corev1.Pod, seen podstate.Pod, override *int64) StopPlan {
	var plan StopPlan
	running := map[string]bool{}
	for _, c := range seen.Running() {
		running[c.GetName()] = true
	}
	after := turns(pod, running)
	for _, c := range seen.Running() {
		stop := ContainerStop{ID: c.GetId(), Name: c.GetName(), After: after[c.GetName()]}
		spec := specOf(pod, c.GetName())
		switch {
		case spec == nil:
			stop.Err = fmt.Errorf("the pod's spec has no container %q", c.GetName())
		case override != nil:
			stop.Grace = *override
		default:
			stop.Grace = BaseGrace(pod, spec, ReasonPod)
		}
		if spec != nil && spec.Lifecycle != nil {
			stop.PreStop = spec.Lifecycle.PreStop
		}
		plan.Containers = append(plan.Containers, stop)
	}
	for _, s := range seen.Sandboxes {
		plan.Sandboxes = append(plan.Sandboxes, s.GetId())
	}
	return plan
}

func specOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			return (*corev1.Container)(&e.EphemeralContainerCommon)
		}
	}
	return nil
}

// stopPod carries out a plan. Its error is upstream's text of what went wrong (KBL-31).
func (w *worker) stopPod(ctx context.Context, pod *corev1.Pod, plan StopPlan) error {
	errs := make([]error, len(plan.Containers)+1) // the last is the sandboxes'
	var rungs sync.WaitGroup
	turn := newQueue(plan.Containers)
	for i, stop := range plan.Containers {
		rungs.Go(func() {
			if err := w.stopContainer(ctx, pod, stop, turn); err != nil {
				errs[i] = fmt.Errorf("failed to \"KillContainer\" for %q with KillContainerError: %q", stop.Name, err.Error())
			}
		})
	}
	rungs.Wait()
	if err := ctx.Err(); err != nil {
		return err // the kubelet leaves: what still runs lives on
	}
	var last error
	for _, id := range plan.Sandboxes {
		if err := w.cfg.Runtime.StopPodSandbox(ctx, id); err != nil && !proto.IsRuntimeCode(err, proto.CodeNotFound) {
			last = err
		}
	}
	if last != nil {
		errs[len(plan.Containers)] = fmt.Errorf("failed to \"KillPodSandbox\" for %q with KillPodSandboxError: %q", string(pod.UID), last.Error())
	}
	return bracketed(errs)
}

// stopContainer is one container's ladder: the event, the hook, the turn, and the stop
// signal, which the runtime follows with SIGKILL (KBL-33).
func (w *worker) stopContainer(ctx context.Context, pod *corev1.Pod, stop ContainerStop, turn *queue) error {
	if stop.Err != nil {
		return stop.Err
	}
	w.cfg.Events.Container(pod, stop.Name, corev1.EventTypeNormal, "Killing", cmp.Or(stop.Why, "Stopping container "+stop.Name))
	timeout := w.beforeSignal(ctx, pod, stop, turn)
	if err := ctx.Err(); err != nil {
		return err
	}
	w.cfg.Log.DebugContext(ctx, "stop container", "pod", podstate.Key(pod), "uid", pod.UID, "container", stop.Name, "grace", timeout, "round", 2)
	err := w.cfg.Runtime.StopContainer(ctx, stop.ID, timeout)
	if proto.IsRuntimeCode(err, proto.CodeNotFound) {
		err = nil
	}
	if err == nil && turn != nil {
		turn.leave(stop.Name)
	}
	return err
}

// beforeSignal runs the hook and waits for the container's turn. It returns how many
// seconds are left between the stop signal and SIGKILL.
func (w *worker) beforeSignal(ctx context.Context, pod *corev1.Pod, stop ContainerStop, turn *queue) int64 {
	var spent time.Duration
	if stop.PreStop != nil && stop.Grace > 0 {
		spent = w.preStop(ctx, pod, stop).Truncate(time.Second)
	}
	left := time.Duration(stop.Grace)*time.Second - spent
	if len(stop.After) > 0 && left > 0 {
		began := w.cfg.Clock.Now()
		waiting, cancel := w.cfg.Clock.Timeout(ctx, left)
		turn.wait(waiting, stop.After)
		cancel()
		spent += w.cfg.Clock.Since(began).Truncate(time.Second)
	}
	return StopTimeout(stop.Grace, nil, spent)
}

// bracketed joins errors as upstream's aggregate prints them: one bare, several as a
// bracketed list, each text once.
func bracketed(errs []error) error {
	var texts []string
	for _, err := range errs {
		if err != nil && !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
	}
	switch len(texts) {
	case 0:
		return nil
	case 1:
		return errors.New(texts[0])
	}
	return errors.New("[" + strings.Join(texts, ", ") + "]")
}
