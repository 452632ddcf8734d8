package podstate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRestarts: a rule goes before the container's own policy, and that before the pod's.
func TestRestarts(t *testing.T) {
	policy := func(p corev1.ContainerRestartPolicy) *corev1.ContainerRestartPolicy { return &p }
	rule := func(operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes},
		}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for name, c := range map[string]struct {
		pod  corev1.RestartPolicy
		own  *corev1.ContainerRestartPolicy
		rule []corev1.ContainerRestartRule
		code int32
		want bool
	}{
		"Always, 0":                {pod: corev1.RestartPolicyAlways, want: true},
		"OnFailure, 0":             {pod: corev1.RestartPolicyOnFailure},
		"OnFailure, 1":             {pod: corev1.RestartPolicyOnFailure, code: 1, want: true},
		"Never, 1":                 {pod: corev1.RestartPolicyNever, code: 1},
		"its own Always":           {pod: corev1.RestartPolicyNever, own: policy(corev1.ContainerRestartPolicyAlways), want: true},
		"its own Never":            {pod: corev1.RestartPolicyAlways, own: policy(corev1.ContainerRestartPolicyNever), code: 1},
		"its own OnFailure":        {pod: corev1.RestartPolicyAlways, own: policy(corev1.ContainerRestartPolicyOnFailure)},
		"a rule about it":          {pod: corev1.RestartPolicyNever, own: policy(corev1.ContainerRestartPolicyNever), rule: rule(in, 1, 42), code: 42, want: true},
		"a rule about another":     {pod: corev1.RestartPolicyNever, own: policy(corev1.ContainerRestartPolicyNever), rule: rule(in, 1, 42), code: 43},
		"a rule about all others":  {pod: corev1.RestartPolicyNever, own: policy(corev1.ContainerRestartPolicyNever), rule: rule(notIn, 1, 42), code: 43, want: true},
		"a rule about none of it":  {pod: corev1.RestartPolicyNever, own: policy(corev1.ContainerRestartPolicyNever), rule: rule(notIn, 1, 42), code: 42},
		"a rule that does not say": {pod: corev1.RestartPolicyNever, rule: []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}, code: 1},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.pod}}
		if got := ShouldRestart(pod, &corev1.Container{RestartPolicy: c.own, RestartPolicyRules: c.rule}, c.code); got != c.want {
			t.Errorf("%s: restarts %v, want %v", name, got, c.want)
		}
	}
}
