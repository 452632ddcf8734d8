package podstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Restarts reports whether a container runs again that has ended with the exit code: the
// first of its own rules that is about the code says so, then its own policy, then the
// pod's.
func Restarts(pod *corev1.Pod, spec *corev1.Container, code int32) bool {
	for _, rule := range spec.RestartPolicyRules {
		if rule.Action == corev1.ContainerRestartRuleActionRestart && concerns(rule.ExitCodes, code) {
			return true
		}
	}
	policy := pod.Spec.RestartPolicy
	if spec.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*spec.RestartPolicy)
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

func concerns(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
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
