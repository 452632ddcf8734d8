package store

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
)

// contentOf is what the history tells of any object besides its deletion.
func contentOf(obj kinds.Object) history.Content {
	content := history.Content{Finalizers: obj.GetFinalizers(), Generation: obj.GetGeneration(), Labels: obj.GetLabels()}
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		content.Created = created.Unix()
	}
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		content.Owner = string(owner.UID)
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		content.OwnGrace = obj.Spec.TerminationGracePeriodSeconds
		content.Ready, content.Tolerates = ready(obj), tolerated(obj.Spec.Tolerations)
	case *corev1.Node:
		content.Ready = slices.ContainsFunc(obj.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		for _, taint := range obj.Spec.Taints {
			if taint.Effect == corev1.TaintEffectNoExecute {
				content.Evicting = append(content.Evicting, taint.Key+"="+taint.Value)
			}
		}
	case *appsv1.ReplicaSet:
		content.Replicas = obj.Spec.Replicas
	case *batchv1.Job:
		counted := obj.Status.Succeeded + obj.Status.Failed
		if waiting := obj.Status.UncountedTerminatedPods; waiting != nil {
			counted += int32(len(waiting.Succeeded) + len(waiting.Failed))
		}
		content.Counted = &counted
	case *appsv1.StatefulSet:
		content.Replicas, content.InOrder = obj.Spec.Replicas, obj.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	}
	return content
}

func ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// tolerated are the tolerations of NoExecute taints, as history.Content has them.
func tolerated(all []corev1.Toleration) (said []string) {
	for _, t := range all {
		if t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		text := t.Key
		if t.Operator == corev1.TolerationOpEqual || t.Operator == "" {
			text += "=" + t.Value
		}
		text += ":"
		if t.TolerationSeconds != nil {
			text += strconv.FormatInt(*t.TolerationSeconds, 10)
		}
		said = append(said, text)
	}
	return said
}
