package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Logged is the id of the container of which somebody asks for the logs, or why there are none
// (upstream's validateContainerLogStatus).
func Logged(status *corev1.PodStatus, pod, name string, previous bool) (id string, err error) {
	var c *corev1.ContainerStatus
	for _, list := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses, status.EphemeralContainerStatuses} {
		if c == nil {
			c = find(list, name)
		}
	}
	if c == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod)
	}
	before := idOf(c.LastTerminationState.Terminated)
	switch {
	case previous && before == "":
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod)
	case previous:
		return before, nil
	case c.State.Running != nil:
		return strings.TrimPrefix(c.ContainerID, scheme), nil
	case c.State.Terminated != nil && c.State.Terminated.ContainerID != "":
		return idOf(c.State.Terminated), nil
	case before != "":
		return before, nil
	case c.State.Terminated != nil || c.LastTerminationState.Terminated != nil:
		return "", fmt.Errorf("container %q in pod %q is terminated", name, pod)
	case c.State.Waiting != nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod, pending(c.State.Waiting.Reason))
	}
	return "", fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, pod)
}

func idOf(end *corev1.ContainerStateTerminated) string {
	if end == nil {
		return ""
	}
	return strings.TrimPrefix(end.ContainerID, scheme)
}

// pending is why a container waits, in the words that people are told.
func pending(reason string) string {
	switch reason {
	case "ErrImagePull":
		return "image can't be pulled"
	case "ImagePullBackOff":
		return "trying and failing to pull image"
	}
	return reason
}
