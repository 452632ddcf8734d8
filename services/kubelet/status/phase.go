package status

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// PhaseInput is the input of Phase beside the statuses of the containers.
type PhaseInput struct {
	// Ended: no container runs again, whatever the restart policy says.
	Ended bool
	// Initialized: a regular container has been made in the present sandbox.
	Initialized bool
}

// tally counts the sidecars and the regular containers of a pod by state.
type tally struct {
	unknown, waiting, running, stopped, succeeded int
	// final counts the stopped containers that do not restart.
	final int
	// starting are the sidecars that have not started yet.
	starting int
}

// Phase returns the phase of a pod from the statuses of its containers (KBL-69, upstream's
// getPhase). A running sidecar counts; how a sidecar ends does not (KBL-54).
func Phase(pod *corev1.Pod, status corev1.PodStatus, at PhaseInput) corev1.PodPhase {
	pending, failed := initProgress(pod, status)
	if failed {
		return corev1.PodFailed
	}
	var n tally
	for i := range pod.Spec.InitContainers {
		if spec := &pod.Spec.InitContainers[i]; podstate.IsSidecar(spec) {
			n.countSidecar(findStatus(status.InitContainerStatuses, spec.Name))
		}
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		n.countRegular(pod, spec, findStatus(status.ContainerStatuses, spec.Name))
	}
	switch {
	case pending, n.starting > 0 && !at.Initialized, n.waiting > 0, n.unknown > 0:
		return corev1.PodPending
	case n.running > 0:
		return corev1.PodRunning
	case n.stopped == 0:
		return corev1.PodPending
	}
	return n.endPhase(at.Ended && !podstate.IsStatic(pod))
}

// endPhase returns the phase of a pod without a running container.
func (n *tally) endPhase(ended bool) corev1.PodPhase {
	switch {
	case !ended && n.stopped != n.final:
		return corev1.PodRunning // about to restart
	case n.stopped == n.succeeded:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

func (n *tally) countSidecar(c *corev1.ContainerStatus) {
	switch {
	case c == nil:
		n.unknown++
	case c.State.Running != nil:
		n.running++
		if c.Started == nil || !*c.Started {
			n.starting++
		}
	case lastEnd(c) != nil: // does not count
	case c.State.Waiting != nil:
		n.starting++
		n.waiting++
	default:
		n.starting++
		n.unknown++
	}
}

func (n *tally) countRegular(pod *corev1.Pod, spec *corev1.Container, c *corev1.ContainerStatus) {
	end := lastEnd(c)
	switch {
	case c == nil:
		n.unknown++
	case c.State.Running != nil:
		n.running++
	case end != nil:
		n.stopped++
		if !willRestart(pod, spec, end) {
			n.final++
		}
		if c.State.Terminated != nil && end.ExitCode == 0 {
			n.succeeded++
		}
	case c.State.Waiting != nil:
		n.waiting++
	default:
		n.unknown++
	}
}

// lastEnd returns how a container that does not run has ended; nil if it has not ended.
func lastEnd(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case c == nil || c.State.Running != nil:
		return nil
	case c.State.Terminated != nil:
		return c.State.Terminated
	case c.State.Waiting != nil:
		return c.LastTerminationState.Terminated
	}
	return nil
}

// willRestart reports whether a container that ended this way restarts.
func willRestart(pod *corev1.Pod, spec *corev1.Container, end *corev1.ContainerStateTerminated) bool {
	return podstate.ShouldRestart(pod, spec, end.ExitCode) || end.Reason == podstate.ReasonRestartingAll
}

// initProgress reports whether an ordinary init container still has to run or end, and whether one
// failed for good.
func initProgress(pod *corev1.Pod, status corev1.PodStatus) (pending, failed bool) {
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if podstate.IsSidecar(spec) {
			continue
		}
		end := lastEnd(findStatus(status.InitContainerStatuses, spec.Name))
		pending = pending || end == nil
		failed = failed || end != nil && end.ExitCode != 0 && !willRestart(pod, spec, end)
	}
	return pending, failed
}

func findStatus(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
