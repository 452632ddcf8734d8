// Package status says what a pod's status is and gets the API to accept it. derive.go,
// phase.go, containers.go, conditions.go and merge.go are pure, and so are book.go, which
// keeps what is to be reported, the latest status of a UID winning, delivery.go, which gets
// it accepted, and round3_confirm.go, the delete that ends the object. reporter.go makes
// their requests. It does not decide when a pod stops: podworker does.
package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Facts are what the worker knows beside what the runtime shows.
type Facts struct {
	// Ended says that the pod's containers will not run again, which makes the phase
	// final (KBL-69).
	Ended bool
	// MayRun says that a container may still run; a final phase is held back until
	// none can (KBL-67).
	MayRun bool
	// Reason and Message are of an end that the node itself decided (KBL-83).
	Reason, Message string
	// Disrupted says that such an end is none of the pod's own.
	Disrupted bool
	// Waiting are the containers that are not running for a reason of the kubelet's,
	// such as CrashLoopBackOff, by name.
	Waiting map[string]corev1.ContainerStateWaiting
	// Probed is what probes say of running containers, by id; of one that is not here
	// they say that it has started and is ready.
	Probed map[string]Probed
}

// Probed is what probes say of a container.
type Probed struct{ Started, Ready bool }

// Input is all that Derive reads.
type Input struct {
	Pod  *corev1.Pod
	Seen podstate.Pod
	// Old is the status last derived or, after a restart, the API's.
	Old    corev1.PodStatus
	Facts  Facts
	HostIP string
	Compat proto.Compat
	Now    time.Time
}

// Derive is the status of a pod: the phase as it would be if nothing were held back.
func Derive(in Input) corev1.PodStatus {
	pod := in.Pod
	status := corev1.PodStatus{
		HostIP:    in.HostIP,
		QOSClass:  pod.Status.QOSClass,
		StartTime: in.Old.StartTime,
		PodIP:     in.Old.PodIP,
		PodIPs:    in.Old.PodIPs,
	}
	if in.HostIP != "" {
		status.HostIPs = []corev1.HostIP{{IP: in.HostIP}}
	}
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: in.Now.Truncate(time.Second)}
	}
	if sandbox := in.Seen.Sandbox(); sandbox.GetIp() != "" {
		status.PodIP = sandbox.GetIp()
		status.PodIPs = []corev1.PodIP{{IP: sandbox.GetIp()}}
	}
	status.InitContainerStatuses = containerStatuses(in, pod.Spec.InitContainers, in.Old.InitContainerStatuses)
	status.ContainerStatuses = containerStatuses(in, pod.Spec.Containers, in.Old.ContainerStatuses)
	status.EphemeralContainerStatuses = containerStatuses(in, ephemeral(pod), in.Old.EphemeralContainerStatuses)
	status.Phase = phaseOf(in, status)
	if in.Facts.Reason != "" && in.Facts.Ended {
		status.Reason, status.Message = in.Facts.Reason, in.Facts.Message
	}
	if in.Compat.TracksGeneration {
		status.ObservedGeneration = pod.Generation
	}
	status.Conditions = conditions(in, &status)
	return status
}

// ephemeral are the pod's ephemeral containers, as containers.
func ephemeral(pod *corev1.Pod) []corev1.Container {
	specs := make([]corev1.Container, 0, len(pod.Spec.EphemeralContainers))
	for _, c := range pod.Spec.EphemeralContainers {
		specs = append(specs, corev1.Container(c.EphemeralContainerCommon))
	}
	return specs
}

func phaseOf(in Input, status corev1.PodStatus) corev1.PodPhase {
	if old := in.Pod.Status; isFinal(old.Phase) {
		return old.Phase // never undone
	}
	if isFinal(in.Old.Phase) && in.Facts.Ended {
		return in.Old.Phase
	}
	ended := in.Facts.Ended && in.Compat.PublishesTerminalPhase
	if in.Facts.Reason != "" && in.Facts.Ended {
		return corev1.PodFailed
	}
	return Phase(in.Pod, status, ended)
}

// Terminate is the status of a pod that is finished: containers that nobody can find
// any more are given an end, and the phase is final (KBL-62, upstream's TerminatePod).
func Terminate(pod *corev1.Pod, status corev1.PodStatus, compat proto.Compat) corev1.PodStatus {
	status = *status.DeepCopy()
	initialized := len(pod.Spec.InitContainers) == 0 || hasInitialized(pod, status)
	for i := range status.ContainerStatuses {
		if initialized {
			lose(&status.ContainerStatuses[i])
		}
	}
	for i := range status.InitContainerStatuses {
		if c := &status.InitContainerStatuses[i]; c.Started != nil || c.LastTerminationState.Terminated != nil {
			lose(c)
		}
	}
	if !compat.PublishesTerminalPhase {
		return status
	}
	if !isFinal(status.Phase) && !podstate.Static(pod) {
		status.Phase = corev1.PodFailed
	}
	return status
}

func lose(c *corev1.ContainerStatus) {
	if c.State.Terminated != nil {
		return
	}
	c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason:   reasonUnknown,
		Message:  "The container could not be located when the pod was terminated",
		ExitCode: exitKilled,
	}}
	c.Ready = false
}

func isFinal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
