package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Merge returns the status to store: the kubelet's, with foreign conditions as the API has them. A
// final phase is held back while a container may still run (KBL-67, upstream's mergePodStatus).
func Merge(pod *corev1.Pod, wanted corev1.PodStatus, facts Facts, now time.Time) corev1.PodStatus {
	merged := *wanted.DeepCopy()
	live := pod.Status
	if facts.MayRun && IsFinal(merged.Phase) && !IsFinal(live.Phase) {
		merged.Phase, merged.Reason, merged.Message = live.Phase, live.Reason, live.Message
	}
	if IsFinal(live.Phase) {
		merged.Phase, merged.Reason, merged.Message = live.Phase, live.Reason, live.Message // never undone
	}
	for _, c := range live.Conditions {
		if !isOwned(c.Type) && podcondition.FindIn(merged.Conditions, c.Type) == nil {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	for i := range merged.Conditions {
		// If the status is unchanged, the API's transition time stays.
		c := &merged.Conditions[i]
		podcondition.SetTransitionTime(c, podcondition.FindIn(live.Conditions, c.Type), c.LastTransitionTime.Time)
	}
	if IsFinal(merged.Phase) {
		clearReadiness(&merged, now)
	}
	merged.NominatedNodeName = live.NominatedNodeName
	merged.Resize = live.Resize
	if merged.QOSClass == "" {
		merged.QOSClass = live.QOSClass
	}
	return merged
}

// clearReadiness makes the two readiness conditions False, with the reason of the final phase, if
// either is True: containers may have ended after the kubelet looked.
func clearReadiness(merged *corev1.PodStatus, now time.Time) {
	ready, containers := podcondition.FindIn(merged.Conditions, corev1.PodReady), podcondition.FindIn(merged.Conditions, corev1.ContainersReady)
	isTrue := func(c *corev1.PodCondition) bool { return c != nil && c.Status == corev1.ConditionTrue }
	if !isTrue(ready) && !isTrue(containers) {
		return
	}
	for _, c := range []*corev1.PodCondition{ready, containers} {
		if c != nil {
			old := *c
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, finalReason(merged.Phase), ""
			podcondition.SetTransitionTime(c, &old, now)
		}
	}
}

// isOwned reports whether only the kubelet writes the condition.
func isOwned(kind corev1.PodConditionType) bool {
	return slices.Contains([]corev1.PodConditionType{
		corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled,
		corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting,
	}, kind)
}

// Deletable reports whether the object may be deleted for good: it is marked, it is not a static
// pod's mirror, the API shows a final phase, and the worker has finished (KBL-64).
func Deletable(pod *corev1.Pod, finished, publishesPhase bool) bool {
	return finished && pod.DeletionTimestamp != nil && (!publishesPhase || IsFinal(pod.Status.Phase)) && !podstate.IsMirror(pod)
}
