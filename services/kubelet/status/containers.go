package status

import (
	"cmp"
	"slices"
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

	messageRemoved = "The container is removed because RestartAllContainers in place"
	messageLost    = "The container could not be located when the pod was deleted.  The container used to be Running"
	messageAssumed = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
)

// containerKind is the kind of a container in its pod.
type containerKind int

const (
	regular containerKind = iota
	initial
	ephemeral
)

// containerStatuses returns the statuses of the containers of one kind (upstream's
// convertToAPIContainerStatuses): init containers in the order of the spec, others by name.
func containerStatuses(in Input, specs []corev1.Container, old []corev1.ContainerStatus, kind containerKind) []corev1.ContainerStatus {
	if len(specs) == 0 {
		return nil
	}
	out := make([]corev1.ContainerStatus, 0, len(specs))
	for i := range specs {
		spec := &specs[i]
		c := containerStatus(in, spec, findStatus(old, spec.Name))
		if kind == initial {
			assumeCompleted(in, spec, &c)
		}
		applyWaiting(in, spec, kind, &c)
		applyProbes(in, spec, kind, &c)
		out = append(out, c)
	}
	if kind != initial {
		slices.SortFunc(out, func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out
}

// containerStatus returns the status of one container from the runtime's data (KBL-70).
func containerStatus(in Input, spec *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	latest := in.Seen.Latest(spec.Name)
	if latest == nil {
		return missingStatus(in, spec, old)
	}
	status := corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, ImageID: ImageID(spec.Image), ContainerID: scheme + latest.GetId(),
		RestartCount: int32(latest.GetAttempt()), State: stateOf(latest), VolumeMounts: mountStatuses(spec),
	}
	if spec.Lifecycle != nil && spec.Lifecycle.StopSignal != nil {
		status.StopSignal = new(corev1.Signal(latest.GetStopSignal())) // empty for containers that ask for none (KBL-55)
	}
	if in.Compat.TracksGeneration { // the releases that can resize pods in place
		status.Resources = spec.Resources.DeepCopy()
		status.AllocatedResources = spec.Resources.Requests.DeepCopy()
	}
	if old != nil {
		carryOver(&status, old, latest)
	}
	if previous := in.Seen.Previous(spec.Name); previous != nil {
		status.LastTerminationState = stateOf(previous)
	}
	return status
}

// carryOver keeps what only the old status has: the last end of the container, even if the runtime
// has lost it, and the number of restarts.
func carryOver(status, old *corev1.ContainerStatus, latest *proto.Container) {
	count := status.RestartCount
	status.RestartCount = max(count, old.RestartCount)
	switch end := old.State.Terminated; {
	case end != nil && old.ContainerID != status.ContainerID:
		status.LastTerminationState.Terminated = end.DeepCopy()
	case old.LastTerminationState.Terminated != nil:
		status.LastTerminationState.Terminated = old.LastTerminationState.Terminated.DeepCopy()
	}
	if podstate.Alive(latest) && old.State.Terminated != nil && old.RestartCount >= count {
		status.RestartCount = old.RestartCount + 1
	}
}

// missingStatus returns the status of a container that the runtime does not have: not created yet,
// ended and removed, or lost.
func missingStatus(in Input, spec *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, VolumeMounts: mountStatuses(spec), State: corev1.ContainerState{Waiting: initialWaiting(in.Pod)},
	}
	if old == nil {
		return status
	}
	status.RestartCount, status.LastTerminationState = old.RestartCount, *old.LastTerminationState.DeepCopy()
	switch {
	case old.State.Waiting == nil && (old.State.Terminated != nil || old.State.Running != nil) && podstate.RestartsAll(in.Pod, in.Seen, &in.Old):
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: podstate.ReasonRestartingAll, Message: messageRemoved}
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: podstate.ReasonRestartingAll, Message: messageRemoved, ExitCode: exitKilled,
		}
		status.RestartCount++
		if old.State.Terminated != nil { // upstream goes on from the old status
			status.ImageID, status.ContainerID, status.Resources, status.AllocatedResources = old.ImageID, old.ContainerID, old.Resources, old.AllocatedResources
		}
	case old.State.Terminated != nil:
		return *old.DeepCopy()
	case old.State.Running != nil && status.LastTerminationState.Terminated == nil:
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reasonUnknown, Message: messageLost, ExitCode: exitKilled}
		if in.Pod.DeletionTimestamp == nil {
			status.RestartCount++
		}
	}
	return status
}

// initialWaiting returns the state of a container before its first run.
func initialWaiting(pod *corev1.Pod) *corev1.ContainerStateWaiting {
	if len(pod.Spec.InitContainers) > 0 {
		return &corev1.ContainerStateWaiting{Reason: reasonInitializing}
	}
	return &corev1.ContainerStateWaiting{Reason: reasonCreating}
}

// assumeCompleted marks an ordinary init container that the runtime has lost as terminated, if a
// regular container proves that the pod was initialized.
func assumeCompleted(in Input, spec *corev1.Container, c *corev1.ContainerStatus) {
	created := slices.ContainsFunc(in.Pod.Spec.Containers, func(r corev1.Container) bool {
		last := in.Seen.Latest(r.Name)
		return last != nil && last.GetState() != proto.ContainerState_CONTAINER_STATE_UNKNOWN
	})
	if created && in.Seen.Latest(spec.Name) == nil && !podstate.IsSidecar(spec) && c.State.Waiting != nil {
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: messageAssumed}}
	}
}

// applyWaiting sets why a container to be started waits, once an attempt has failed. Until then its
// last state stays.
func applyWaiting(in Input, spec *corev1.Container, kind containerKind, c *corev1.ContainerStatus) {
	reason, known := in.Facts.Waiting[spec.Name]
	last := in.Seen.Latest(spec.Name)
	done := kind == initial && last.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED && last.GetExitCode() == 0
	if !known || done || !podstate.ShouldStart(in.Pod, spec, last) {
		return
	}
	if c.State.Terminated != nil {
		c.LastTerminationState = c.State
	}
	c.State = corev1.ContainerState{Waiting: &reason}
}

// applyProbes sets whether the container has started and is ready (upstream's UpdatePodStatus).
func applyProbes(in Input, spec *corev1.Container, kind containerKind, c *corev1.ContainerStatus) {
	if kind == ephemeral {
		return
	}
	running := c.State.Running != nil
	probed, told := in.Facts.Probes[in.Seen.Latest(spec.Name).GetId()]
	if !told {
		probed = ProbeResult{Started: true, Ready: true}
	}
	c.Started = new(running && probed.Started)
	if kind == initial && !podstate.IsSidecar(spec) {
		c.Ready = c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		return
	}
	c.Ready = running && probed.Started && probed.Ready
}

// mountStatuses returns the volume mounts of a container as its status shows them.
func mountStatuses(spec *corev1.Container) []corev1.VolumeMountStatus {
	mounts := make([]corev1.VolumeMountStatus, 0, len(spec.VolumeMounts))
	for _, m := range spec.VolumeMounts {
		status := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			status.RecursiveReadOnly = new(corev1.RecursiveReadOnlyDisabled)
		}
		mounts = append(mounts, status)
	}
	if len(mounts) == 0 {
		return nil
	}
	return mounts
}

func stateOf(c *proto.Container) corev1.ContainerState {
	switch c.GetState() {
	case proto.ContainerState_CONTAINER_STATE_RUNNING, proto.ContainerState_CONTAINER_STATE_UNKNOWN:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: wholeSeconds(c.GetStartedAtUnixNano())}}
	case proto.ContainerState_CONTAINER_STATE_EXITED:
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode:    c.GetExitCode(),
			Reason:      exitReason(c),
			Message:     c.GetMessage(),
			StartedAt:   wholeSeconds(c.GetStartedAtUnixNano()),
			FinishedAt:  wholeSeconds(c.GetFinishedAtUnixNano()),
			ContainerID: scheme + c.GetId(),
		}}
	case proto.ContainerState_CONTAINER_STATE_CREATED:
	}
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
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

// wholeSeconds returns a time as the API carries it, in whole seconds. A container that never
// started has 1970-01-01T00:00:00Z, as with upstream.
func wholeSeconds(unixNano int64) metav1.Time {
	return metav1.Time{Time: time.Unix(0, unixNano).Truncate(time.Second)}
}
