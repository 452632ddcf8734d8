// Package status derives a pod's status and gets the API to accept it. derive.go, phase.go,
// containers.go, conditions.go and merge.go are pure. So are queue.go, which keeps the latest
// status of each UID, delivery.go, which gets it accepted, and round3_confirm.go, the delete that
// ends the object. reporter.go makes their requests. This package does not decide when a pod stops:
// podworker does.
package status

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Facts are what the worker knows beside the runtime's data.
type Facts struct {
	// Ended says that the pod's containers will not run again, which makes the phase final
	// (KBL-69).
	Ended bool
	// MayRun says that a container may still run. A final phase is held back until none can
	// (KBL-67).
	MayRun bool
	// Reason and Message describe an end that the node itself decided (KBL-83). They count once the
	// pod has ended, or at once if Evicts.
	Reason, Message string
	Evicts          bool
	// Disrupted says that the pod did not cause such an end.
	Disrupted bool
	// Waiting are the containers that do not run for a reason of the kubelet's, for example
	// CrashLoopBackOff, by name.
	Waiting map[string]corev1.ContainerStateWaiting
	// Probes are the results of probes, by container id. Containers without an entry have started
	// and are ready.
	Probes map[string]ProbeResult
}

// ProbeResult is the result of one container's probes.
type ProbeResult struct{ Started, Ready bool }

// Input is the input of Derive.
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

// Derive returns the status of a pod, with its phase as if nothing were held back.
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
	status.InitContainerStatuses = containerStatuses(in, pod.Spec.InitContainers, in.Old.InitContainerStatuses, initial)
	status.ContainerStatuses = containerStatuses(in, pod.Spec.Containers, in.Old.ContainerStatuses, regular)
	status.EphemeralContainerStatuses = containerStatuses(in, ephemeralSpecs(pod), in.Old.EphemeralContainerStatuses, ephemeral)
	if in.Compat.TracksGeneration { // the releases that can resize pods in place
		status.AllocatedResources, status.Resources = allocatedResources(pod)
	}
	status.Phase = derivePhase(in, status)
	if status.Phase == in.Old.Phase {
		status.Reason, status.Message = cmp.Or(in.Old.Reason, pod.Status.Reason), cmp.Or(in.Old.Message, pod.Status.Message)
	}
	if in.Facts.endsByNode() {
		status.Reason, status.Message = in.Facts.Reason, in.Facts.Message
	}
	if in.Compat.TracksGeneration {
		status.ObservedGeneration = pod.Generation
	}
	status.Conditions = kubeletConditions(in, &status)
	return status
}

// endsByNode reports whether the pod has failed for a reason of the node's.
func (f Facts) endsByNode() bool { return f.Reason != "" && (f.Ended || f.Evicts) }

// allocatedResources returns the sum of what the pod's containers were given.
func allocatedResources(pod *corev1.Pod) (corev1.ResourceList, *corev1.ResourceRequirements) {
	requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
	together := &corev1.ResourceRequirements{}
	if pod.Spec.Resources != nil {
		together = pod.Spec.Resources.DeepCopy()
	}
	together.Requests, together.Limits = requests, helper.PodLimits(pod, helper.PodResourcesOptions{})
	return requests, together
}

// ephemeralSpecs returns the pod's ephemeral containers as containers.
func ephemeralSpecs(pod *corev1.Pod) []corev1.Container {
	specs := make([]corev1.Container, 0, len(pod.Spec.EphemeralContainers))
	for _, c := range pod.Spec.EphemeralContainers {
		specs = append(specs, corev1.Container(c.EphemeralContainerCommon))
	}
	return specs
}

// derivePhase returns the phase. A final phase is never undone.
func derivePhase(in Input, status corev1.PodStatus) corev1.PodPhase {
	api := in.Pod.Status.Phase
	phase := Phase(in.Pod, status, PhaseInput{
		Ended: in.Facts.Ended && in.Compat.PublishesTerminalPhase, Initialized: in.Seen.HasStartedRegular(in.Pod),
	})
	switch {
	case IsFinal(api):
		return api
	case in.Facts.endsByNode():
		return corev1.PodFailed
	case !IsFinal(phase) && IsFinal(in.Old.Phase):
		return in.Old.Phase
	}
	return phase
}

// Terminate returns the status of a finished pod: lost containers are marked as terminated, and the
// phase is final (KBL-62, upstream's TerminatePod). The conditions stay. Status is the last derived
// status, pod the worker's.
func Terminate(pod *corev1.Pod, status corev1.PodStatus, compat proto.Compat) corev1.PodStatus {
	status = *status.DeepCopy()
	if hasInitialized(pod) {
		for i := range status.ContainerStatuses {
			markLost(&status.ContainerStatuses[i])
		}
	}
	for i := range begunInits(status.InitContainerStatuses) {
		markLost(&status.InitContainerStatuses[i])
	}
	if !compat.PublishesTerminalPhase {
		return status
	}
	if !IsFinal(status.Phase) && !podstate.IsStatic(pod) {
		status.Phase = corev1.PodFailed
	}
	return status
}

func markLost(c *corev1.ContainerStatus) {
	if c.State.Terminated != nil {
		return
	}
	c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason:   reasonUnknown,
		Message:  "The container could not be located when the pod was terminated",
		ExitCode: exitKilled,
	}}
}

// begunInits returns the init containers up to the last one that has run; at least the first
// (upstream's initializedContainers).
func begunInits(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i, status := range slices.Backward(statuses) {
		if status.State.Waiting == nil || status.LastTerminationState.Terminated != nil {
			return statuses[:i+1]
		}
	}
	return statuses[:min(1, len(statuses))]
}

// hasInitialized reports whether the status of the worker's pod shows that the pod was initialized
// (upstream's hasPodInitialized).
func hasInitialized(pod *corev1.Pod) bool {
	if len(pod.Spec.InitContainers) == 0 {
		return true
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.LastTerminationState.Terminated != nil || c.State.Waiting == nil {
			return true
		}
	}
	if len(pod.Status.InitContainerStatuses) == 0 {
		return false
	}
	spec := &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	last := findStatus(pod.Status.InitContainerStatuses, spec.Name)
	switch {
	case last == nil:
		return false
	case podstate.IsSidecar(spec):
		return last.State.Running != nil && last.Started != nil && *last.Started
	}
	return endedWell(last.State) || endedWell(last.LastTerminationState)
}

func endedWell(state corev1.ContainerState) bool {
	return state.Terminated != nil && state.Terminated.ExitCode == 0
}

// RestartsAll reports whether a status says that all containers of the pod restart.
func RestartsAll(status corev1.PodStatus) bool {
	c := podcondition.FindIn(status.Conditions, corev1.AllContainersRestarting)
	return c != nil && c.Status == corev1.ConditionTrue
}

// IsFinal reports whether a phase is Succeeded or Failed.
func IsFinal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
