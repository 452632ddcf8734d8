// Package status says what a pod's status is and gets the API to accept it. derive.go,
// phase.go, containers.go, conditions.go and merge.go are pure, and so are book.go, which
// keeps what is to be reported, the latest status of a UID winning, delivery.go, which gets
// it accepted, and round3_confirm.go, the delete that ends the object. reporter.go makes
// their requests. It does not decide when a pod stops: podworker does.
package status

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	helper "k8s.io/component-helpers/resource"

	"github.com/podfall/podfall/internal/podcondition"
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
	// Reason and Message are of an end that the node itself decided (KBL-83); they count from
	// the end on, or at once if Evicts.
	Reason, Message string
	Evicts          bool
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
	status.InitContainerStatuses = containerStatuses(in, pod.Spec.InitContainers, in.Old.InitContainerStatuses, initial)
	status.ContainerStatuses = containerStatuses(in, pod.Spec.Containers, in.Old.ContainerStatuses, regular)
	status.EphemeralContainerStatuses = containerStatuses(in, ephemerals(pod), in.Old.EphemeralContainerStatuses, ephemeral)
	if in.Compat.TracksGeneration { // the releases that can resize pods in place
		status.AllocatedResources, status.Resources = allocated(pod)
	}
	status.Phase = phaseOf(in, status)
	if status.Phase == in.Old.Phase {
		status.Reason, status.Message = cmp.Or(in.Old.Reason, pod.Status.Reason), cmp.Or(in.Old.Message, pod.Status.Message)
	}
	if in.Facts.evicts() {
		status.Reason, status.Message = in.Facts.Reason, in.Facts.Message
	}
	if in.Compat.TracksGeneration {
		status.ObservedGeneration = pod.Generation
	}
	status.Conditions = conditions(in, &status)
	return status
}

// evicts reports whether the pod has failed for a reason of the node's.
func (f Facts) evicts() bool { return f.Reason != "" && (f.Ended || f.Evicts) }

// allocated is what the containers of the pod have been given together.
func allocated(pod *corev1.Pod) (corev1.ResourceList, *corev1.ResourceRequirements) {
	requests := helper.PodRequests(pod, helper.PodResourcesOptions{})
	together := &corev1.ResourceRequirements{}
	if pod.Spec.Resources != nil {
		together = pod.Spec.Resources.DeepCopy()
	}
	together.Requests, together.Limits = requests, helper.PodLimits(pod, helper.PodResourcesOptions{})
	return requests, together
}

// ephemerals are the pod's ephemeral containers, as containers.
func ephemerals(pod *corev1.Pod) []corev1.Container {
	specs := make([]corev1.Container, 0, len(pod.Spec.EphemeralContainers))
	for _, c := range pod.Spec.EphemeralContainers {
		specs = append(specs, corev1.Container(c.EphemeralContainerCommon))
	}
	return specs
}

// phaseOf is the phase, of which a final one is never undone.
func phaseOf(in Input, status corev1.PodStatus) corev1.PodPhase {
	api := in.Pod.Status.Phase
	phase := Phase(in.Pod, status, Progress{
		Ended: in.Facts.Ended && in.Compat.PublishesTerminalPhase, Initialized: in.Seen.Begun(in.Pod),
	})
	switch {
	case IsFinal(api):
		return api
	case in.Facts.evicts():
		return corev1.PodFailed
	case !IsFinal(phase) && IsFinal(in.Old.Phase):
		return in.Old.Phase
	}
	return phase
}

// Terminate is the status of a pod that is finished: containers that nobody can find any more are
// given an end, and the phase is final (KBL-62, upstream's TerminatePod). The conditions stay.
// Status is what was derived last, the pod the one that the worker has.
func Terminate(pod *corev1.Pod, status corev1.PodStatus, compat proto.Compat) corev1.PodStatus {
	status = *status.DeepCopy()
	if hasInitialized(pod) {
		for i := range status.ContainerStatuses {
			lose(&status.ContainerStatuses[i])
		}
	}
	for i := range begun(status.InitContainerStatuses) {
		lose(&status.InitContainerStatuses[i])
	}
	if !compat.PublishesTerminalPhase {
		return status
	}
	if !IsFinal(status.Phase) && !podstate.Static(pod) {
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
}

// begun are the init containers up to the last one that has run; at least the first (upstream's
// initializedContainers).
func begun(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i := len(statuses) - 1; i >= 0; i-- {
		if statuses[i].State.Waiting == nil || statuses[i].LastTerminationState.Terminated != nil {
			return statuses[:i+1]
		}
	}
	return statuses[:min(1, len(statuses))]
}

// hasInitialized reports whether the status of the worker's pod shows that it has been initialized
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
	last := find(pod.Status.InitContainerStatuses, spec.Name)
	switch {
	case last == nil:
		return false
	case podstate.Sidecar(spec):
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

// IsFinal reports whether a pod in the phase runs no more.
func IsFinal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
