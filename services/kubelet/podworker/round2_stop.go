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

// StopPlan is one attempt to stop a pod: all containers at once, and after the last answer the
// sandboxes one by one, even if a container failed (KBL-32).
type StopPlan struct {
	Containers []ContainerStop
	Sandboxes  []string
}

// ContainerStop stops one container within Grace seconds, including hooks and waiting.
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

// PlanStop plans the stop of the pod's running containers and its sandboxes. Override is the
// worker's grace in seconds; nil leaves each container its own.
func PlanStop(pod *corev1.Pod, seen podstate.Pod, override *int64) StopPlan {
	var plan StopPlan
	running := map[string]bool{}
	for _, c := range seen.Running() {
		running[c.GetName()] = true
	}
	after := stopOrder(pod, running)
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

// specOf returns the spec of any container of the pod, including ephemeral ones, or nil.
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

// stopPod carries out a plan. Its error has upstream's text (KBL-31).
func (w *worker) stopPod(ctx context.Context, pod *corev1.Pod, plan StopPlan) error {
	works := w.cfg.Tasks.Group()
	defer works.Wait()
	kubeletCtx := ctx // hooks may outlive the stop
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, stop := range plan.Containers {
		w.announceStop(pod, stop)
	}
	outcomes := task.NewQueue[Outcome](w.cfg.Tasks)
	attempt := NewAttempt(plan, w.cfg.Clock.Steady())
	for !attempt.Over() {
		for _, work := range attempt.Work() {
			works.Go(func() {
				if hook, is := work.(RunHook); is {
					w.runPreStop(kubeletCtx, pod, plan.Containers[hook.Container])
					outcomes.Put(HookEnded(hook))
					return
				}
				outcomes.Put(w.performStopWork(ctx, pod, plan, work))
			})
		}
		outcome, err := outcomes.Take(ctx)
		if err != nil {
			return err // the kubelet leaves: what still runs keeps running
		}
		attempt.Step(outcome, w.cfg.Clock.Steady())
	}
	return attempt.Err(string(pod.UID))
}

// performStopWork performs one work of an attempt.
func (w *worker) performStopWork(ctx context.Context, pod *corev1.Pod, plan StopPlan, work Work) Outcome {
	switch work := work.(type) {
	case RunHook: // stopPod runs it
	case AwaitTurn:
		_ = w.cfg.Clock.Sleep(ctx, work.Until.Sub(w.cfg.Clock.Steady())) // an early end needs no outcome
		return TurnTimedOut{work.Container}
	case StopContainer:
		w.cfg.Log.DebugContext(ctx, "stop container", "pod", podstate.Key(pod), "uid", pod.UID,
			"container", plan.Containers[work.Container].Name, "grace", work.Timeout, "round", 2)
		return ContainerStopped{work.Container, w.cfg.Runtime.StopContainer(ctx, work.ID, work.Timeout)}
	case StopSandbox:
		return SandboxStopped{w.cfg.Runtime.StopPodSandbox(ctx, work.ID)}
	}
	return nil
}

// announceStop sends the event that a container is about to be stopped (KBL-33b).
func (w *worker) announceStop(pod *corev1.Pod, stop ContainerStop) {
	if stop.Err == nil {
		w.cfg.Events.ContainerEvent(pod, stop.Name, corev1.EventTypeNormal, "Killing", cmp.Or(stop.Why, "Stopping container "+stop.Name))
	}
}

// stopContainer stops one container of a pod that continues: the hook, the stop signal, and SIGKILL
// by the runtime (KBL-33).
func (w *worker) stopContainer(ctx context.Context, pod *corev1.Pod, stop ContainerStop) error {
	var spent time.Duration
	if stop.PreStop != nil && stop.Grace > 0 {
		spent = w.runPreStop(ctx, pod, stop)
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

// CheckStopped returns an error if the runtime still shows running containers after it answered
// every stop.
func CheckStopped(seen podstate.Pod) error {
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

// joinErrors joins errors as upstream's aggregate prints them: a single one bare, several as a list
// in brackets, each text once.
func joinErrors(errs []error) error {
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
