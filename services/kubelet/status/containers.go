package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonUnknown      = "ContainerStatusUnknown"
	exitKilled         = 137

	scheme = "podfall://" // of container ids, as containerd://
)

// Initialized reports whether every init container has ended well and every sidecar
// runs, or a regular container exists, which proves that they had.
func Initialized(pod *corev1.Pod, seen podstate.Pod) bool {
	for _, c := range pod.Spec.Containers {
		if seen.Latest(c.Name) != nil {
			return true
		}
	}
	for _, c := range pod.Spec.InitContainers {
		last := seen.Latest(c.Name)
		if podstate.Sidecar(&c) && podstate.Alive(last) {
			continue
		}
		if last.GetState() != proto.ContainerState_CONTAINER_STATE_EXITED || last.GetExitCode() != 0 {
			return false
		}
	}
	return true
}

func containerStatuses(in Input, specs []corev1.Container, old []corev1.ContainerStatus) []corev1.ContainerStatus {
	waiting := corev1.ContainerStateWaiting{Reason: reasonCreating}
	if len(in.Pod.Spec.InitContainers) > 0 {
		waiting.Reason = reasonInitializing
	}
	out := make([]corev1.ContainerStatus, 0, len(specs))
	for _, spec := range specs {
		c := containerStatus(in, spec, find(old, spec.Name), waiting)
		if reason, ok := in.Facts.Waiting[spec.Name]; ok && c.State.Running == nil && mayRun(in, &spec) {
			if c.State.Terminated != nil {
				c.LastTerminationState = c.State
			}
			c.State = corev1.ContainerState{Waiting: &reason}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// mayRun reports whether a container that does not run may run later: it has not ended, or
// is restarted (upstream's ShouldContainerBeRestarted). Otherwise it stays terminated, and
// the apiserver refuses any other state.
func mayRun(in Input, spec *corev1.Container) bool {
	latest := in.Seen.Latest(spec.Name)
	if latest.GetState() != proto.ContainerState_CONTAINER_STATE_EXITED {
		return true
	}
	return in.Pod.DeletionTimestamp == nil && podstate.Restarts(in.Pod, spec, latest.GetExitCode())
}

// containerStatus is the status of one container (KBL-70).
func containerStatus(in Input, spec corev1.Container, old *corev1.ContainerStatus, waiting corev1.ContainerStateWaiting) corev1.ContainerStatus {
	latest := in.Seen.Latest(spec.Name)
	status := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image}
	if latest == nil {
		lost(&status, old, waiting)
		return status
	}
	if spec.Lifecycle != nil && spec.Lifecycle.StopSignal != nil {
		status.StopSignal = new(corev1.Signal(latest.GetStopSignal())) // who asks for none is not told (KBL-55)
	}
	status.ContainerID = scheme + latest.GetId()
	status.ImageID = spec.Image
	status.RestartCount = int32(latest.GetAttempt())
	status.State = state(latest, waiting)
	status.Ready = status.State.Running != nil
	status.Started = new(status.Ready)
	if probed, told := in.Facts.Probed[latest.GetId()]; told && status.Ready {
		status.Ready, status.Started = probed.Ready, new(probed.Started)
	}
	if previous := in.Seen.Previous(spec.Name); previous != nil {
		status.LastTerminationState = state(previous, waiting)
	} else if old != nil && old.RestartCount == status.RestartCount {
		status.LastTerminationState = old.LastTerminationState
	}
	if status.LastTerminationState.Terminated == nil {
		status.LastTerminationState = corev1.ContainerState{}
	}
	return status
}

// lost fills in a container that the runtime does not have: not started yet, ended and
// removed, or gone without a trace.
func lost(status, old *corev1.ContainerStatus, waiting corev1.ContainerStateWaiting) {
	status.State = corev1.ContainerState{Waiting: &waiting}
	status.Started = new(false)
	switch {
	case old == nil:
	case old.State.Terminated != nil:
		*status = *old.DeepCopy()
	case old.State.Running != nil:
		status.RestartCount = old.RestartCount + 1
		status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason:      reasonUnknown,
			Message:     "The container could not be located when the pod was deleted.  The container used to be Running",
			ExitCode:    exitKilled,
			ContainerID: old.ContainerID,
		}}
	default:
		status.RestartCount = old.RestartCount
		status.LastTerminationState = *old.LastTerminationState.DeepCopy()
	}
}

func state(c *proto.Container, waiting corev1.ContainerStateWaiting) corev1.ContainerState {
	switch c.GetState() {
	case proto.ContainerState_CONTAINER_STATE_RUNNING, proto.ContainerState_CONTAINER_STATE_UNKNOWN:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(c.GetStartedAtUnixNano())}}
	case proto.ContainerState_CONTAINER_STATE_EXITED:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode:    c.GetExitCode(),
			Reason:      exitReason(c),
			Message:     c.GetMessage(),
			StartedAt:   seconds(c.GetStartedAtUnixNano()),
			FinishedAt:  seconds(c.GetFinishedAtUnixNano()),
			ContainerID: scheme + c.GetId(),
		}}
	case proto.ContainerState_CONTAINER_STATE_CREATED:
	}
	return corev1.ContainerState{Waiting: &waiting}
}

func exitReason(c *proto.Container) string {
	switch {
	case c.GetReason() != "":
		return c.GetReason()
	case c.GetExitCode() == 0:
		return "Completed"
	}
	return "Error"
}

// seconds is a time as the wire carries it: whole seconds.
func seconds(unixNano int64) metav1.Time {
	if unixNano == 0 {
		return metav1.Time{}
	}
	return metav1.Time{Time: time.Unix(0, unixNano).Truncate(time.Second)}
}
