package registry

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// keepReportedStatus restores what a status update leaves out without meaning to remove it: the
// quality of service, the observed generations (API-73), and the second form of the addresses.
func keepReportedStatus(status, old *corev1.PodStatus) {
	fill(&status.QOSClass, old.QOSClass)
	fill(&status.ObservedGeneration, old.ObservedGeneration)
	observed := make(map[corev1.PodConditionType]int64)
	for _, condition := range old.Conditions {
		observed[condition.Type] = condition.ObservedGeneration
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		fill(&condition.ObservedGeneration, observed[condition.Type])
	}
	switch {
	case status.PodIP == "" && len(status.PodIPs) > 0:
		status.PodIP = status.PodIPs[0].IP
	case status.PodIP != "" && (len(status.PodIPs) == 0 || status.PodIPs[0].IP != status.PodIP):
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
}

// validatePodStatusUpdate returns why the status of pod may not replace that of old (API-71).
func validatePodStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	f := &findings{}
	f.checkAnnotationUpdate(pod.Annotations, old.Annotations, field.NewPath("metadata", "annotations"))
	at := field.NewPath("status")
	for i, condition := range pod.Status.Conditions {
		if condition.ObservedGeneration < 0 {
			f.invalid(at.Child("conditions").Index(i).Child("observedGeneration"), condition.ObservedGeneration,
				"must be a non-negative integer")
		}
		f.checkQualifiedName(at.Child("conditions").Index(i).Child("Type"), string(condition.Type))
	}
	f.checkNomination(pod, old, at.Child("nominatedNodeName"))
	if pod.Status.ObservedGeneration < 0 {
		f.invalid(at.Child("observedGeneration"), pod.Status.ObservedGeneration, "must be a non-negative integer")
	}
	f.add(validation.ValidateImmutableField(pod.Status.QOSClass, old.Status.QOSClass, at.Child("qosClass"))...)
	f.checkStateTransitions(pod, old, at)
	for i, address := range pod.Status.PodIPs {
		f.add(utilvalidation.IsValidIPForLegacyField(at.Child("podIPs").Index(i), address.IP, false, nil)...)
	}
	return f.errs
}

func (f *findings) checkNomination(pod, old *corev1.Pod, at *field.Path) {
	name := pod.Status.NominatedNodeName
	if name == "" || name == old.Status.NominatedNodeName {
		return
	}
	f.invalid(at, name, validation.NameIsDNSSubdomain(name, false)...)
	if old.Spec.NodeName != "" {
		f.forbidden(at, "may not be set on pods that are already bound to a node")
	}
}

// checkStateTransitions refuses to let a terminated container run again, unless its restart policy
// restarts it.
func (f *findings) checkStateTransitions(pod, old *corev1.Pod, at *field.Path) {
	spec := &old.Spec
	if anyRestartsAll(spec) {
		return
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
		now, was   []corev1.ContainerStatus
	}{
		{"containerStatuses", spec.Containers, pod.Status.ContainerStatuses, old.Status.ContainerStatuses},
		{"initContainerStatuses", spec.InitContainers, pod.Status.InitContainerStatuses, old.Status.InitContainerStatuses},
		{"ephemeralContainerStatuses", nil, pod.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses},
	} {
		for i, was := range list.was {
			if was.State.Terminated == nil {
				continue
			}
			revived := slices.ContainsFunc(list.now, func(now corev1.ContainerStatus) bool {
				return now.Name == was.Name && now.State.Terminated == nil
			})
			mayRestart := slices.ContainsFunc(list.containers, func(c corev1.Container) bool {
				return c.Name == was.Name && restartsAfter(&c, spec.RestartPolicy, was.State.Terminated.ExitCode)
			})
			if revived && !mayRestart {
				f.forbidden(at.Child(list.name).Index(i).Child("state"), "may not be transitioned to non-terminated state")
			}
		}
	}
}

// anyRestartsAll reports whether the end of some container can restart all of them.
func anyRestartsAll(spec *corev1.PodSpec) bool {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// restartsAfter reports whether a container that ended with a code is restarted: its own rules
// decide, then its own policy, then the Pod's.
func restartsAfter(c *corev1.Container, podPolicy corev1.RestartPolicy, code int32) bool {
	policy := podPolicy
	if c.RestartPolicy != nil {
		for _, rule := range c.RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestart && matchesExitCode(rule.ExitCodes, code) {
				return true
			}
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

func matchesExitCode(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	listed := slices.Contains(codes.Values, code)
	return listed == (codes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}
