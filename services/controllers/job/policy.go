package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// failureAction returns the action of the first rule of the podFailurePolicy that matches a failed
// pod, and the message for the Job's failure. It returns Count if none matches
// (matchPodFailurePolicy).
func (s *planning) failureAction(pod *corev1.Pod) (action batchv1.PodFailurePolicyAction, why string) {
	if s.Job.Spec.PodFailurePolicy == nil {
		return batchv1.PodFailurePolicyActionCount, ""
	}
	for i, rule := range s.Job.Spec.PodFailurePolicy.Rules {
		var what string
		if rule.OnExitCodes != nil {
			what = matchExitCodes(pod, rule.OnExitCodes)
		} else {
			what = matchCondition(pod, rule.OnPodConditions)
		}
		if what != "" {
			return rule.Action, fmt.Sprintf("%s matching %v rule at index %d", what, rule.Action, i)
		}
	}
	return batchv1.PodFailurePolicyActionCount, ""
}

// countsAsFailure reports whether a failed pod counts as a failure.
func (s *planning) countsAsFailure(pod *corev1.Pod) bool {
	action, _ := s.failureAction(pod)
	return action != batchv1.PodFailurePolicyActionIgnore
}

// matchExitCodes returns a message about the first container that matches a rule; "" if none does.
func matchExitCodes(pod *corev1.Pod, rule *batchv1.PodFailurePolicyOnExitCodesRequirement) string {
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		ended := status.State.Terminated
		if ended == nil || ended.ExitCode == 0 || (rule.ContainerName != nil && *rule.ContainerName != status.Name) {
			continue
		}
		if slices.Contains(rule.Values, ended.ExitCode) == (rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
			return fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v", status.Name, pod.Namespace, pod.Name, ended.ExitCode)
		}
	}
	return ""
}

// matchCondition returns a message about the first condition of a pod that matches a rule; "" if
// none does.
func matchCondition(pod *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) string {
	for _, condition := range pod.Status.Conditions {
		for _, pattern := range patterns {
			status := pattern.Status
			if status == "" {
				status = corev1.ConditionTrue
			}
			if condition.Type == pattern.Type && condition.Status == status {
				return fmt.Sprintf("Pod %s/%s has condition %v", pod.Namespace, pod.Name, condition.Type)
			}
		}
	}
	return ""
}
