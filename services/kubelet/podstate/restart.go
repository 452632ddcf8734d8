package podstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// ReasonRestartingAll is the reason of containers that were removed because all containers of
// the pod restart.
const ReasonRestartingAll = "RestartingAllContainers"

// ShouldRestart reports whether a container that ended with the exit code runs again (upstream's
// ContainerShouldRestart): the first matching rule decides, then the container's policy, then the
// pod's. Rules count only beside a policy of the container's own.
func ShouldRestart(pod *corev1.Pod, spec *corev1.Container, code int32) bool {
	policy := pod.Spec.RestartPolicy
	if spec.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*spec.RestartPolicy)
		switch ruleFor(spec, code) {
		case corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers:
			return true
		}
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	case corev1.RestartPolicyAlways:
	}
	return true
}

// ShouldStart reports whether a container must be started or restarted. Last is its newest run
// (upstream's ShouldContainerBeRestarted).
func ShouldStart(pod *corev1.Pod, spec *corev1.Container, last *proto.Container) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case last == nil:
		return true
	case last.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED:
		return ShouldRestart(pod, spec, last.GetExitCode())
	}
	return !Alive(last)
}

// ruleFor is the action of the first rule that matches the exit code; empty for none.
func ruleFor(spec *corev1.Container, code int32) corev1.ContainerRestartRuleAction {
	for _, rule := range spec.RestartPolicyRules {
		if matches(rule.ExitCodes, code) {
			return rule.Action
		}
	}
	return ""
}

func matches(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	in := slices.Contains(codes.Values, code)
	switch codes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return in
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !in
	}
	return false
}

// MayRestartAll reports whether a rule of some container can restart all containers (upstream's
// AllContainersCouldRestart).
func MayRestartAll(pod *corev1.Pod) bool {
	return slices.ContainsFunc(specs(pod), func(spec *corev1.Container) bool {
		return slices.ContainsFunc(spec.RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
			return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// RestartsAll reports whether all containers of the pod must restart (upstream's
// ShouldAllContainersRestart): the old status says so already, or a container's exit matches such a
// rule.
func RestartsAll(pod *corev1.Pod, seen Pod, old *corev1.PodStatus) bool {
	if !MayRestartAll(pod) {
		return false
	}
	for _, c := range old.Conditions {
		if c.Type == corev1.AllContainersRestarting && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	said := slices.Concat(old.InitContainerStatuses, old.ContainerStatuses)
	for _, spec := range specs(pod) {
		last := seen.Latest(spec.Name)
		if last.GetState() != proto.ContainerState_CONTAINER_STATE_EXITED {
			continue // none, or one that runs
		}
		if TriggersRestartAll(spec, last.GetExitCode()) {
			return true
		}
		for i := range said {
			if end := said[i].State.Terminated; said[i].Name == spec.Name && end != nil && TriggersRestartAll(spec, end.ExitCode) {
				return true
			}
		}
	}
	return false
}

// TriggersRestartAll reports whether the exit code of a container restarts all containers.
func TriggersRestartAll(spec *corev1.Container, code int32) bool {
	return ruleFor(spec, code) == corev1.ContainerRestartRuleActionRestartAllContainers
}

// HasNoContainers reports whether the runtime has no container of the pod's spec (upstream's
// AllContainersRestartCleanedUp).
func HasNoContainers(pod *corev1.Pod, seen Pod) bool {
	return !slices.ContainsFunc(specs(pod), func(spec *corev1.Container) bool { return seen.Latest(spec.Name) != nil })
}

// specs returns the init containers and the regular containers of a pod.
func specs(pod *corev1.Pod) []*corev1.Container {
	all := make([]*corev1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}
