package registry

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of this file have upstream's defaults. What they say is otherwise stored as it
// comes.

func networkPolicyRules() rules[*networkingv1.NetworkPolicy] {
	return rules[*networkingv1.NetworkPolicy]{defaults: func(policy *networkingv1.NetworkPolicy) {
		if len(policy.Spec.PolicyTypes) == 0 {
			policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(policy.Spec.Egress) > 0 {
				policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
			}
		}
		for i := range policy.Spec.Ingress {
			defaultPolicyPorts(policy.Spec.Ingress[i].Ports)
		}
		for i := range policy.Spec.Egress {
			defaultPolicyPorts(policy.Spec.Egress[i].Ports)
		}
	}}
}

func defaultPolicyPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		fillPointer(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func roleBindingRules() rules[*rbacv1.RoleBinding] {
	return rules[*rbacv1.RoleBinding]{defaults: func(b *rbacv1.RoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) }}
}

func clusterRoleBindingRules() rules[*rbacv1.ClusterRoleBinding] {
	return rules[*rbacv1.ClusterRoleBinding]{
		defaults: func(b *rbacv1.ClusterRoleBinding) { defaultBinding(&b.RoleRef, b.Subjects) },
	}
}

func defaultBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fill(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind == rbacv1.UserKind || subjects[i].Kind == rbacv1.GroupKind {
			fill(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

// autoscalerRules sets the CPU utilization as the default metric.
func autoscalerRules() rules[*autoscalingv2.HorizontalPodAutoscaler] {
	return rules[*autoscalingv2.HorizontalPodAutoscaler]{defaults: func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		const usualUtilization = 80
		fillPointer(&hpa.Spec.MinReplicas, 1)
		if len(hpa.Spec.Metrics) == 0 {
			hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceCPU,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(usualUtilization)),
					},
				},
			}}
		}
	}}
}

func validatingWebhookRules() rules[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return rules[*admissionregistrationv1.ValidatingWebhookConfiguration]{
		defaults: func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			for i := range c.Webhooks {
				hook := &c.Webhooks[i]
				fillPointer(&hook.FailurePolicy, admissionregistrationv1.Fail)
				fillPointer(&hook.MatchPolicy, admissionregistrationv1.Equivalent)
				defaultWebhook(&hook.NamespaceSelector, &hook.ObjectSelector, &hook.TimeoutSeconds)
				defaultWebhookTarget(&hook.ClientConfig, hook.Rules)
			}
		},
	}
}

func mutatingWebhookRules() rules[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return rules[*admissionregistrationv1.MutatingWebhookConfiguration]{
		defaults: func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			for i := range c.Webhooks {
				hook := &c.Webhooks[i]
				fillPointer(&hook.FailurePolicy, admissionregistrationv1.Fail)
				fillPointer(&hook.MatchPolicy, admissionregistrationv1.Equivalent)
				fillPointer(&hook.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
				defaultWebhook(&hook.NamespaceSelector, &hook.ObjectSelector, &hook.TimeoutSeconds)
				defaultWebhookTarget(&hook.ClientConfig, hook.Rules)
			}
		},
	}
}

func defaultWebhook(namespaces, objects **metav1.LabelSelector, timeout **int32) {
	const usualTimeout = 10
	fillPointer(namespaces, metav1.LabelSelector{})
	fillPointer(objects, metav1.LabelSelector{})
	fillPointer(timeout, usualTimeout)
}

func defaultWebhookTarget(target *admissionregistrationv1.WebhookClientConfig, rules []admissionregistrationv1.RuleWithOperations) {
	const httpsPort = 443
	if target.Service != nil {
		fillPointer(&target.Service.Port, httpsPort)
	}
	for i := range rules {
		fillPointer(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}
