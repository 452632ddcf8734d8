package status

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Progress is what is known of a pod beside the statuses of its containers.
type Progress struct {
	// Ended: no container runs again, whatever the restart policy says.
	Ended bool
	// Initialized: a regular container has been made in the present sandbox.
	Initialized bool
}

// tally counts the sidecars and the regular containers of a pod by their state.
type tally struct {
	unknown, waiting, running, stopped, succeeded int
	// final are those of the stopped that do not restart.
	final int
	// starting are the sidecars that have not started yet.
	starting int
}

// Phase is the phase of a pod from the statuses of its containers (KBL-69, upstream's getPhase).
// How a sidecar ends does not count (KBL-54), that it runs does.
func Phase(pod *corev1.Pod, status corev1.PodStatus, at Progress) corev1.PodPhase {
	pending, failed := initContainers(pod, status)
	if failed {
		return corev1.PodFailed
	}
	var n tally
	for i := range pod.Spec.InitContainers {
		if spec := &pod.Spec.InitContainers[i]; podstate.Sidecar(spec) {
			n.sidecar(find(status.InitContainerStatuses, spec.Name))
		}
	}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		n.regular(pod, spec, find(status.ContainerStatuses, spec.Name))
	}
	switch {
	case pending, n.starting > 0 && !at.Initialized, n.waiting > 0, n.unknown > 0:
		return corev1.PodPending
	case n.running > 0:
		return corev1.PodRunning
	case n.stopped == 0:
		return corev1.PodPending
	}
	return n.ending(at.Ended && !podstate.Static(pod))
}

// ending is the phase of a pod without a running container.
func (n *tally) ending(ended bool) corev1.PodPhase {
	switch {
	case !ended && n.stopped != n.final:
		return corev1.PodRunning // about to restart
	case n.stopped == n.succeeded:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

func (n *tally) sidecar(c *corev1.ContainerStatus) {
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

func (n *tally) regular(pod *corev1.Pod, spec *corev1.Container, c *corev1.ContainerStatus) {
	end := lastEnd(c)
	switch {
	case c == nil:
		n.unknown++
	case c.State.Running != nil:
		n.running++
	case end != nil:
		n.stopped++
		if !comesBack(pod, spec, end) {
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

// lastEnd is how a container has ended that does not run; nil for a container that has not.
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

// comesBack reports whether a container that has ended so restarts.
func comesBack(pod *corev1.Pod, spec *corev1.Container, end *corev1.ContainerStateTerminated) bool {
	return podstate.Restarts(pod, spec, end.ExitCode) || end.Reason == podstate.ReasonRestartingAll
}

// initContainers reports whether an ordinary init container has still to run or to end, and
// whether one has failed for good.
func initContainers(pod *corev1.Pod, status corev1.PodStatus) (pending, failed bool) {
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if podstate.Sidecar(spec) {
			continue
		}
		end := lastEnd(find(status.InitContainerStatuses, spec.Name))
		pending = pending || end == nil
		failed = failed || end != nil && end.ExitCode != 0 && !comesBack(pod, spec, end)
	}
	return pending, failed
}

func find(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
