package volumeprotection

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unused returns the claim's condition of that type by the pods of its namespace, and false when the
// claim has it already. Only a bound claim that stays has one (updateUnusedCondition).
func Unused(claim *corev1.PersistentVolumeClaim, pods []*corev1.Pod, now time.Time) (corev1.PersistentVolumeClaimCondition, bool) {
	if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
		return corev1.PersistentVolumeClaimCondition{}, false
	}
	condition := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(now.Unix(), 0),
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC",
	}
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return refersTo(pod, claim) }) {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	i := slices.IndexFunc(claim.Status.Conditions, isUnused)
	switch {
	case i < 0:
		return condition, true
	case condition.Status == corev1.ConditionFalse: // an unknown state stays when a pod comes
		return condition, claim.Status.Conditions[i].Status == corev1.ConditionTrue
	}
	return condition, claim.Status.Conditions[i].Status != corev1.ConditionTrue
}

// withCondition returns the claim with its condition Unused replaced.
func withCondition(claim *corev1.PersistentVolumeClaim, condition corev1.PersistentVolumeClaimCondition) *corev1.PersistentVolumeClaim {
	changed := claim.DeepCopy()
	if i := slices.IndexFunc(changed.Status.Conditions, isUnused); i >= 0 {
		changed.Status.Conditions[i] = condition
	} else {
		changed.Status.Conditions = append(changed.Status.Conditions, condition)
	}
	return changed
}

func isUnused(condition corev1.PersistentVolumeClaimCondition) bool {
	return condition.Type == corev1.PersistentVolumeClaimUnused
}

// refersTo reports whether a pod that has not terminated names the claim, with a node or without
// (podUsesPVCForUnusedSince).
func refersTo(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return !hasTerminated(pod) && names(pod, claim, true)
}

// hasTerminated reports whether a pod has ended, or is being deleted and runs nothing (IsPodTerminated).
func hasTerminated(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil && s.State.Waiting == nil
	})
}
