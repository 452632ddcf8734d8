package podworker

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// stopBeforeStart stops what a plan stops before it starts anything. It reports whether there was
// anything to stop.
func (w *worker) stopBeforeStart(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan StartPlan) (stopped bool, err error) {
	if plan.KillPod {
		if plan.Sandbox {
			w.cfg.Events.Event(pod, corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		return true, w.stopPod(ctx, pod, PlanStop(pod, seen, nil))
	}
	for _, stop := range plan.Kills {
		w.announceStop(pod, stop)
		if err := w.stopContainer(ctx, pod, stop); err != nil {
			return true, err
		}
	}
	for _, reset := range plan.Resets {
		if err := w.resetContainer(ctx, pod, reset); err != nil {
			return true, err
		}
	}
	return len(plan.Kills)+len(plan.Resets) > 0, nil
}

// resetContainer removes a container because all containers of the pod restart. It runs no hooks.
func (w *worker) resetContainer(ctx context.Context, pod *corev1.Pod, reset Reset) error {
	if reset.Kill {
		stop := ContainerStop{ID: reset.ID, Name: reset.Name, Why: "killing"}
		w.announceStop(pod, stop)
		if err := w.stopContainer(ctx, pod, stop); err != nil {
			return fmt.Errorf("failed to \"RemoveContainer\" for %q with KillContainerError: %w", reset.Name, err)
		}
	}
	if err := w.cfg.Runtime.RemoveContainer(ctx, reset.ID); err != nil {
		return fmt.Errorf("failed to \"RemoveContainer\" for %q with RemoveContainerError: %w", reset.Name, err)
	}
	return nil
}
