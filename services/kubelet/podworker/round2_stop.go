package podworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/task"
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
		stop.PreStop = preStopOf(spec)
		plan.Containers = append(plan.Containers, stop)
	}
	for _, s := range seen.Sandboxes {
		plan.Sandboxes = append(plan.Sandboxes, s.GetId())
	}
	return plan
}

// specOf is that of any container of the pod, ephemeral ones included; nil for none.
func specOf(pod *corev1.Pod, name string) *corev1.Container {
	if spec := podstate.Container(pod, name); spec != nil {
		return spec
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
	works := w.cfg.Tasks.Group()
	defer works.Wait()
	leaving := ctx // of hooks, which may outlive the stop
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, stop := range plan.Containers {
		w.announce(pod, stop)
	}
	outcomes := task.NewQueue[Outcome](w.cfg.Tasks)
	attempt := NewAttempt(plan, w.cfg.Clock.Steady())
	for !attempt.Over() {
		for _, work := range attempt.Work() {
			works.Go(func() {
				if hook, is := work.(Hook); is {
					w.preStop(leaving, pod, plan.Containers[hook.Container])
					outcomes.Put(HookOver(hook))
					return
				}
				outcomes.Put(w.carryOutStop(ctx, pod, plan, work))
			})
		}
		outcome, err := outcomes.Take(ctx)
		if err != nil {
			return err // the kubelet leaves: what still runs lives on
		}
		attempt.Step(outcome, w.cfg.Clock.Steady())
	}
	return attempt.Err(string(pod.UID))
}

// carryOutStop does one thing of an attempt.
func (w *worker) carryOutStop(ctx context.Context, pod *corev1.Pod, plan StopPlan, work Work) Outcome {
	switch work := work.(type) {
	case Hook: // stopPod runs it
	case Await:
		_ = w.cfg.Clock.Sleep(ctx, work.Until.Sub(w.cfg.Clock.Steady())) // ended early it is no outcome
		return AwaitOver{work.Container}
	case StopOne:
		w.cfg.Log.DebugContext(ctx, "stop container", "pod", podstate.Key(pod), "uid", pod.UID,
			"container", plan.Containers[work.Container].Name, "grace", work.Timeout, "round", 2)
		return OneStopped{work.Container, w.cfg.Runtime.StopContainer(ctx, work.ID, work.Timeout)}
	case StopBox:
		return BoxStopped{w.cfg.Runtime.StopPodSandbox(ctx, work.ID)}
	}
	return nil
}

// announce tells people that a container is about to be stopped (KBL-33b).
func (w *worker) announce(pod *corev1.Pod, stop ContainerStop) {
	if stop.Err == nil {
		w.cfg.Events.ContainerEvent(pod, stop.Name, corev1.EventTypeNormal, "Killing", cmp.Or(stop.Why, "Stopping container "+stop.Name))
	}
}

// stopContainer stops one container of a pod that goes on: the hook and the stop signal,
// which the runtime follows with SIGKILL (KBL-33).
func (w *worker) stopContainer(ctx context.Context, pod *corev1.Pod, stop ContainerStop) error {
	var spent time.Duration
	if stop.PreStop != nil && stop.Grace > 0 {
		spent = w.preStop(ctx, pod, stop)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := w.cfg.Runtime.StopContainer(ctx, stop.ID, StopTimeout(stop.Grace, nil, spent))
	if proto.IsRuntimeCode(err, proto.CodeNotFound) {
		err = nil
	}
	return err
}

// Violation is the error of a runtime that has answered every stop and still shows what
// runs; nil when nothing does.
func Violation(seen podstate.Pod) error {
	running := seen.Running()
	if len(running) == 0 {
		return nil
	}
	ids := make([]string, 0, len(running))
	for _, c := range running {
		ids = append(ids, c.GetId())
	}
	return errors.New("detected running containers after a successful KillPod, CRI violation: [" + strings.Join(ids, " ") + "]")
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
