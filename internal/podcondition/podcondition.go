// Package podcondition writes pod conditions for kubelets, controllers and the apiserver. It is
// pure.
package podcondition

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Disruption returns the condition of a pod that the system, not its user, is about to end
// (CTL-53).
func Disruption(reason, message string) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	}
}

// The reasons in the readiness conditions of a pod that the kubelet has ended. No container of
// the pod runs again.
const (
	Completed = "PodCompleted"
	Failed    = "PodFailed"
)

// IsFinal reports whether the kubelet has reported the end of the pod: by the reason, and by the final
// phase, which follows once no container runs. Other writers may have set a terminal phase before.
func IsFinal(pod *corev1.Pod) bool {
	c := Find(pod, corev1.ContainersReady)
	final := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return final && c != nil && (c.Reason == Completed || c.Reason == Failed)
}

// Find returns the pod's condition of a type; nil if there is none.
func Find(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	return FindIn(pod.Status.Conditions, kind)
}

// FindIn returns the condition of a type; nil if there is none.
func FindIn(conditions []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// SetTransitionTime sets the transition time of c, in whole seconds. If the status has not changed,
// it keeps the time of old, which may be nil.
func SetTransitionTime(c, old *corev1.PodCondition, now time.Time) {
	if old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
		return
	}
	c.LastTransitionTime = metav1.Unix(now.Unix(), 0)
}

// Set sets the pod's condition, replacing the one of the same type.
func Set(pod *corev1.Pod, c corev1.PodCondition, now time.Time) {
	old := Find(pod, c.Type)
	if SetTransitionTime(&c, old, now); old != nil {
		*old = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// Patch returns a strategic merge patch of the pod's status that sets the condition, and the phase
// unless it is empty. It applies to this pod only, by UID. It returns nil if the pod has both
// already.
func Patch(pod *corev1.Pod, phase corev1.PodPhase, condition *corev1.PodCondition, now time.Time) ([]byte, error) {
	status := map[string]any{}
	if phase != "" && pod.Status.Phase != phase {
		status["phase"] = phase
	}
	if condition != nil {
		want := *condition
		if pod.Status.ObservedGeneration != 0 {
			want.ObservedGeneration = pod.Generation
		}
		have := Find(pod, want.Type)
		SetTransitionTime(&want, have, now)
		if have == nil || !equalStatus(*have, want) {
			status["conditions"] = []any{withEmptyTexts(want)}
		}
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
}

// withEmptyTexts includes empty texts as null: a patch without them would keep the old texts.
func withEmptyTexts(c corev1.PodCondition) any {
	type condition corev1.PodCondition
	return struct {
		condition

		Reason  *string `json:"reason"`
		Message *string `json:"message"`
	}{condition(c), orNull(c.Reason), orNull(c.Message)}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func equalStatus(a, b corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
