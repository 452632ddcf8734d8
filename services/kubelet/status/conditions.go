package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

const (
	reasonCompleted      = podcondition.Completed
	reasonFailed         = podcondition.Failed
	reasonNotReady       = "ContainersNotReady"
	reasonNotInitialized = "ContainersNotInitialized"
	reasonGatesNotReady  = "ReadinessGatesNotReady"
	reasonRestartAll     = "RestartAllContainersStarted"
)

// kubeletConditions returns the conditions that the kubelet owns, in upstream's order (KBL-67,
// KBL-71). A status that did not change keeps its transition time.
func kubeletConditions(in Input, status *corev1.PodStatus) []corev1.PodCondition {
	ready := containersReadyCondition(in.Pod, status)
	pod := readyCondition(in.Pod, ready)
	pod.Type = corev1.PodReady
	ready.Type = corev1.ContainersReady
	wanted := []corev1.PodCondition{
		readyToStartCondition(in.Seen),
		initializedCondition(in, status),
		pod,
		ready,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	if in.Compat.TracksGeneration {
		for i := range wanted {
			wanted[i].ObservedGeneration = in.Pod.Generation
		}
	}
	if podstate.MayRestartAll(in.Pod) {
		wanted = append(wanted, restartingAllCondition(in, status.Phase)) // upstream gives this one no generation
	}
	if in.Facts.Disrupted && in.Facts.Ended {
		wanted = append(wanted, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: in.Facts.Message,
			ObservedGeneration: wanted[0].ObservedGeneration,
		})
	}
	for i := range wanted {
		podcondition.SetTransitionTime(&wanted[i], podcondition.FindIn(in.Old.Conditions, wanted[i].Type), in.Now)
	}
	return wanted
}

// readyToStartCondition is upstream's GeneratePodReadyToStartContainersCondition.
func readyToStartCondition(seen podstate.Pod) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if needs, _, why := seen.NeedsSandbox(); needs {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, podstate.ReasonPodSandboxUnready, why
	}
	return c
}

// initializedCondition is upstream's GeneratePodInitializedCondition. A pod that was initialized
// once stays so.
func initializedCondition(in Input, status *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	var incomplete []string
	for i := range in.Pod.Spec.InitContainers {
		spec := &in.Pod.Spec.InitContainers[i]
		if s := findStatus(status.InitContainerStatuses, spec.Name); !isInitComplete(spec, s) {
			incomplete = append(incomplete, spec.Name)
		}
	}
	was := podcondition.FindIn(in.Old.Conditions, corev1.PodInitialized)
	switch {
	case status.Phase == corev1.PodSucceeded:
		c.Reason = reasonCompleted
	case anyRegularStarted(status.ContainerStatuses), len(incomplete) == 0, was != nil && was.Status == corev1.ConditionTrue:
	default:
		c.Status, c.Reason = corev1.ConditionFalse, reasonNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

// isInitComplete reports whether an init container lets the next one start: a sidecar that has
// started, or another that has succeeded (upstream's isInitContainerInitialized).
func isInitComplete(spec *corev1.Container, s *corev1.ContainerStatus) bool {
	switch {
	case s == nil:
		return false
	case podstate.IsSidecar(spec):
		return s.Started != nil && *s.Started
	}
	return s.Ready
}

// anyRegularStarted reports whether a regular container runs or has run, which proves that the pod
// had been initialized (upstream's HasAnyRegularContainerStarted).
func anyRegularStarted(regular []corev1.ContainerStatus) bool {
	for i := range regular {
		if regular[i].State.Running != nil || regular[i].State.Terminated != nil {
			return true
		}
	}
	return false
}

// readyCondition returns the Ready condition: the containers' and, if that is True, the result of
// the pod's readiness gates (upstream's GeneratePodReadyCondition).
func readyCondition(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	if containers.Status != corev1.ConditionTrue {
		return containers
	}
	var unready []string
	for _, gate := range pod.Spec.ReadinessGates {
		c := podcondition.FindIn(pod.Status.Conditions, gate.ConditionType)
		switch {
		case c == nil:
			unready = append(unready, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case c.Status != corev1.ConditionTrue:
			unready = append(unready, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, c.Status))
		}
	}
	if len(unready) > 0 {
		return corev1.PodCondition{
			Status: corev1.ConditionFalse, Reason: reasonGatesNotReady, Message: strings.Join(unready, ", "),
		}
	}
	return containers
}

// containersReadyCondition says whether every regular container and every sidecar is ready
// (upstream's GenerateContainersReadyCondition).
func containersReadyCondition(pod *corev1.Pod, status *corev1.PodStatus) corev1.PodCondition {
	var names []string
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		if s := findStatus(status.InitContainerStatuses, spec.Name); podstate.IsSidecar(spec) && (s == nil || !s.Ready) {
			names = append(names, spec.Name)
		}
	}
	for i := range pod.Spec.Containers {
		if s := findStatus(status.ContainerStatuses, pod.Spec.Containers[i].Name); s == nil || !s.Ready {
			names = append(names, pod.Spec.Containers[i].Name)
		}
	}
	if reason := finalReason(status.Phase); reason != "" {
		return corev1.PodCondition{Status: corev1.ConditionFalse, Reason: reason}
	}
	if len(names) > 0 {
		return corev1.PodCondition{
			Status: corev1.ConditionFalse, Reason: reasonNotReady, Message: fmt.Sprintf("containers with unready status: %s", names),
		}
	}
	return corev1.PodCondition{Status: corev1.ConditionTrue}
}

// finalReason returns the reason of conditions in a final phase; empty in other phases.
func finalReason(phase corev1.PodPhase) string {
	switch phase {
	case corev1.PodSucceeded:
		return reasonCompleted
	case corev1.PodFailed:
		return reasonFailed
	case corev1.PodPending, corev1.PodRunning, corev1.PodUnknown:
	}
	return ""
}

// restartingAllCondition is upstream's GenerateAllContainersRestartingCondition: True from the exit
// that restarts all containers until the runtime has none of them.
func restartingAllCondition(in Input, phase corev1.PodPhase) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse, Reason: finalReason(phase)}
	if c.Reason == "" && podstate.RestartsAll(in.Pod, in.Seen, &in.Old) && !podstate.HasNoContainers(in.Pod, in.Seen) {
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, reasonRestartAll, "container exited with restart policy rule"
	}
	return c
}

// NeedsReadiness reports whether the pod's Ready condition differs from the result of its readiness
// gates (upstream's NeedToReconcilePodReadiness).
func NeedsReadiness(pod *corev1.Pod) bool {
	now := podcondition.Find(pod, corev1.PodReady)
	if len(pod.Spec.ReadinessGates) == 0 || now == nil {
		return false
	}
	want := readyCondition(pod, containersReadyCondition(pod, &pod.Status))
	return now.Status != want.Status || now.Message != want.Message
}
