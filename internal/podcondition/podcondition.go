// Package podcondition writes the conditions of pods, for whoever sets one: kubelets,
// controllers, and the apiserver for what some verbs mean. It is pure.
package podcondition

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Disruption is the condition of a pod that is about to be ended by somebody else than
// its user (CTL-53).
func Disruption(reason, message string) corev1.PodCondition {
	return corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	}
}

// The reasons that a kubelet gives in the readiness conditions of a pod whose containers have ended:
// no container of it runs again.
const (
	Completed = "PodCompleted"
	Failed    = "PodFailed"
)

// Final reports whether its kubelet has said that the pod has ended: by the reason, and by the final
// phase, which follows once nothing runs. Others may have given it that phase before.
func Final(pod *corev1.Pod) bool {
	c := Find(pod, corev1.ContainersReady)
	final := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return final && c != nil && (c.Reason == Completed || c.Reason == Failed)
}

// Find is the pod's condition of that type, nil when it has none.
func Find(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	return In(pod.Status.Conditions, kind)
}

// In is the condition of that type among others, nil when it is not there.
func In(conditions []corev1.PodCondition, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// Stamp gives c its transition time, in whole seconds: that of the old one, which may be nil,
// while the status is the same.
func Stamp(c, old *corev1.PodCondition, now time.Time) {
	if old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
		return
	}
	c.LastTransitionTime = metav1.Unix(now.Unix(), 0)
}

// Set gives the pod the condition, in the place of the one of its type.
func Set(pod *corev1.Pod, c corev1.PodCondition, now time.Time) {
	old := Find(pod, c.Type)
	if Stamp(&c, old, now); old != nil {
		*old = c
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// Patch is the strategic merge patch of the pod's status that gives it the condition,
// and the phase unless that is empty. It applies to this pod only, by its UID. It is nil
// when the pod has both already.
func Patch(pod *corev1.Pod, phase corev1.PodPhase, condition *corev1.PodCondition, now time.Time) ([]byte, error) {
	status := map[string]any{}
	if phase != "" && pod.Status.Phase != phase {
		status["phase"] = phase
	}
	if condition != nil {
		wanted := *condition
		if pod.Status.ObservedGeneration != 0 {
			wanted.ObservedGeneration = pod.Generation
		}
		have := Find(pod, wanted.Type)
		Stamp(&wanted, have, now)
		if have == nil || !same(*have, wanted) {
			status["conditions"] = []any{whole(wanted)}
		}
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
}

// whole is a condition with all of its texts, empty ones too: a patch without them would
// keep the old ones.
func whole(c corev1.PodCondition) any {
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

func same(a, b corev1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
