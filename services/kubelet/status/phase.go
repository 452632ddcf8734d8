package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// tally counts a pod's regular containers by what has become of them.
type tally struct {
	missing, waiting, running, stopped, succeeded int
	again                                         bool // one that has stopped is to be restarted
}

// Phase is the phase of a pod from its containers' statuses (KBL-69, upstream's
// getPhase). Ended says that no container will run again, whatever the restart policy.
// How a sidecar ends does not count (KBL-54), that it runs does.
func Phase(pod *corev1.Pod, status corev1.PodStatus, ended bool) corev1.PodPhase {
	pending, failed := initContainers(pod, status)
	if failed {
		return corev1.PodFailed
	}
	var n tally
	for _, c := range pod.Spec.InitContainers {
		if s := find(status.InitContainerStatuses, c.Name); podstate.Sidecar(&c) && s != nil && s.State.Running != nil {
			n.running++
		}
	}
	for _, c := range pod.Spec.Containers {
		s := find(status.ContainerStatuses, c.Name)
		n.count(s)
		if end := lastEnd(s); end != nil && podstate.Restarts(pod, &c, end.ExitCode) {
			n.again = true
		}
	}
	switch {
	case pending || n.waiting > 0 || n.missing > 0:
		return corev1.PodPending
	case n.running > 0:
		return corev1.PodRunning
	case n.stopped == 0:
		return corev1.PodPending
	}
	return n.ending(ended)
}

func (n *tally) count(c *corev1.ContainerStatus) {
	switch {
	case c == nil:
		n.missing++
	case c.State.Running != nil:
		n.running++
	case c.State.Terminated != nil:
		n.stopped++
		if c.State.Terminated.ExitCode == 0 {
			n.succeeded++
		}
	case c.State.Waiting != nil && c.LastTerminationState.Terminated != nil:
		n.stopped++ // between two runs
	case c.State.Waiting != nil:
		n.waiting++
	default:
		n.missing++
	}
}

// lastEnd is how a container has ended that does not run; nil for one that has not.
func lastEnd(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case c == nil || c.State.Running != nil:
		return nil
	case c.State.Terminated != nil:
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// ending is the phase of a pod none of whose containers runs.
func (n *tally) ending(ended bool) corev1.PodPhase {
	succeeded := n.stopped == n.succeeded
	switch {
	case !ended && n.again:
		return corev1.PodRunning // about to be restarted
	case succeeded:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// initContainers says whether some init container has still to end, or a sidecar to
// start, and whether one has failed for good.
func initContainers(pod *corev1.Pod, status corev1.PodStatus) (pending, failed bool) {
	begun := anyStarted(status.ContainerStatuses)
	for _, spec := range pod.Spec.InitContainers {
		c := find(status.InitContainerStatuses, spec.Name)
		if podstate.Sidecar(&spec) {
			started := c != nil && c.Started != nil && *c.Started
			pending = pending || !begun && !started
			continue
		}
		var end *corev1.ContainerStateTerminated
		switch {
		case c == nil:
		case c.State.Terminated != nil:
			end = c.State.Terminated
		case c.State.Waiting != nil:
			end = c.LastTerminationState.Terminated
		}
		switch {
		case end == nil:
			pending = true
		case end.ExitCode != 0:
			failed, pending = failed || !podstate.Restarts(pod, &spec, end.ExitCode), true
		}
	}
	return pending, failed
}

// anyStarted reports whether a regular container has run, which proves that the pod had
// been initialized.
func anyStarted(regular []corev1.ContainerStatus) bool {
	return slices.ContainsFunc(regular, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	})
}

func hasInitialized(pod *corev1.Pod, status corev1.PodStatus) bool {
	pending, _ := initContainers(pod, status)
	return !pending
}

func find(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}
