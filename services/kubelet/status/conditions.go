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
)

// conditions are the ones the kubelet owns, in upstream's order (KBL-67, KBL-71). A
// status that did not change keeps its transition time.
func conditions(in Input, status *corev1.PodStatus) []corev1.PodCondition {
	ready := readiness(in.Pod, status)
	pod := gated(in.Pod, ready)
	pod.Type = corev1.PodReady
	ready.Type = corev1.ContainersReady
	wanted := []corev1.PodCondition{
		sandboxCondition(in),
		initialization(in, status),
		pod,
		ready,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	if in.Facts.Disrupted && in.Facts.Ended {
		wanted = append(wanted, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: in.Facts.Message,
		})
	}
	for i := range wanted {
		if in.Compat.TracksGeneration {
			wanted[i].ObservedGeneration = in.Pod.Generation
		}
		podcondition.SetTransitionTime(&wanted[i], podcondition.FindIn(in.Old.Conditions, wanted[i].Type), in.Now)
	}
	return wanted
}

func sandboxCondition(in Input) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
	if in.Seen.Sandbox() != nil {
		c.Status = corev1.ConditionTrue
	}
	return c
}

func initialization(in Input, status *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if status.Phase == corev1.PodSucceeded {
		c.Reason = reasonCompleted
		return c
	}
	if Initialized(in.Pod, in.Seen) {
		return c
	}
	var names []string
	for _, spec := range in.Pod.Spec.InitContainers {
		s := find(status.InitContainerStatuses, spec.Name)
		if s == nil || s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			names = append(names, spec.Name)
		}
	}
	c.Status, c.Reason = corev1.ConditionFalse, reasonNotInitialized
	c.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(names, " "))
	return c
}

// gated is the Ready condition: the containers', and where those are ready, what the
// pod's readiness gates say (upstream's GeneratePodReadyCondition).
func gated(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
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
			Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady", Message: strings.Join(unready, ", "),
		}
	}
	return containers
}

// readiness is whether every regular container and every sidecar is ready.
func readiness(pod *corev1.Pod, status *corev1.PodStatus) corev1.PodCondition {
	var names []string
	for _, spec := range pod.Spec.InitContainers {
		if s := find(status.InitContainerStatuses, spec.Name); podstate.Sidecar(&spec) && (s == nil || !s.Ready) {
			names = append(names, spec.Name)
		}
	}
	for _, spec := range pod.Spec.Containers {
		if s := find(status.ContainerStatuses, spec.Name); s == nil || !s.Ready {
			names = append(names, spec.Name)
		}
	}
	switch {
	case status.Phase == corev1.PodSucceeded:
		return corev1.PodCondition{Status: corev1.ConditionFalse, Reason: reasonCompleted}
	case status.Phase == corev1.PodFailed:
		return corev1.PodCondition{Status: corev1.ConditionFalse, Reason: reasonFailed}
	case len(names) > 0:
		return corev1.PodCondition{
			Status: corev1.ConditionFalse, Reason: reasonNotReady,
			Message: unready(names),
		}
	}
	return corev1.PodCondition{Status: corev1.ConditionTrue}
}

func unready(names []string) string {
	return fmt.Sprintf("containers with unready status: [%s]", strings.Join(names, " "))
}
