package status

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Merge is the status to store: the kubelet's, with the conditions that are not the
// kubelet's as the API has them, and with a final phase held back while a container may
// still run (KBL-67, upstream's mergePodStatus).
func Merge(pod *corev1.Pod, wanted corev1.PodStatus, facts Facts, now time.Time) corev1.PodStatus {
	merged := *wanted.DeepCopy()
	live := pod.Status
	if facts.MayRun && isFinal(merged.Phase) && !isFinal(live.Phase) {
		merged.Phase, merged.Reason, merged.Message = live.Phase, live.Reason, live.Message
		hold(&merged, wanted)
	}
	if isFinal(live.Phase) {
		merged.Phase, merged.Reason, merged.Message = live.Phase, live.Reason, live.Message // never undone
	}
	for _, c := range live.Conditions {
		if !owned(c.Type) && podcondition.FindIn(merged.Conditions, c.Type) == nil {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	for i := range merged.Conditions {
		// The API's transition time stands where the status is the API's.
		c := &merged.Conditions[i]
		podcondition.SetTransitionTime(c, podcondition.FindIn(live.Conditions, c.Type), c.LastTransitionTime.Time)
	}
	if isFinal(merged.Phase) {
		end(&merged, now)
	}
	merged.NominatedNodeName = live.NominatedNodeName
	merged.Resize = live.Resize
	if merged.QOSClass == "" {
		merged.QOSClass = live.QOSClass
	}
	return merged
}

// hold says of the two readiness conditions what is true before the end is published.
func hold(merged *corev1.PodStatus, wanted corev1.PodStatus) {
	for i := range merged.Conditions {
		c := &merged.Conditions[i]
		if c.Reason == reasonCompleted || c.Reason == reasonFailed {
			c.Reason = ""
			if c.Status == corev1.ConditionFalse {
				c.Reason, c.Message = reasonNotReady, unreadyMessage(wanted)
			}
		}
	}
}

// end makes the two readiness conditions False with the phase's own reason.
func end(merged *corev1.PodStatus, now time.Time) {
	reason := reasonCompleted
	if merged.Phase == corev1.PodFailed {
		reason = reasonFailed
	}
	for i := range merged.Conditions {
		c := &merged.Conditions[i]
		if c.Type != corev1.PodReady && c.Type != corev1.ContainersReady {
			continue
		}
		old := *c
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, ""
		podcondition.SetTransitionTime(c, &old, now)
	}
}

func unreadyMessage(status corev1.PodStatus) string {
	var names []string
	for _, c := range status.ContainerStatuses {
		names = append(names, c.Name)
	}
	return unready(names)
}

// owned reports whether only the kubelet writes the condition.
func owned(kind corev1.PodConditionType) bool {
	return slices.Contains([]corev1.PodConditionType{
		corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled,
		corev1.PodReadyToStartContainers, corev1.PodResizePending, corev1.PodResizeInProgress,
	}, kind)
}

// Deletable reports whether the object may be deleted for good: it is marked, it is not
// a static pod's mirror, the API shows a final phase, and the worker has finished
// (KBL-64).
func Deletable(pod *corev1.Pod, finished, publishesPhase bool) bool {
	return finished && pod.DeletionTimestamp != nil && (!publishesPhase || isFinal(pod.Status.Phase)) && !podstate.Mirror(pod)
}
