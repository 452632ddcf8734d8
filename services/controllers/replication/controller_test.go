package replication

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAsSet reads a ReplicationController as a ReplicaSet, and its status back.
func TestAsSet(t *testing.T) {
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "rc", UID: "u"}}
	rc.Spec.Replicas = new(int32(3))
	rc.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	rc.Status = corev1.ReplicationControllerStatus{
		Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, ObservedGeneration: 5,
		Conditions: []corev1.ReplicationControllerCondition{{Type: corev1.ReplicationControllerReplicaFailure, Status: corev1.ConditionTrue, Reason: "r", Message: "m"}},
	}
	set := AsSet(rc)
	if *set.Spec.Replicas != 3 || set.UID != "u" || set.Spec.Selector.MatchLabels["app"] != "web" {
		t.Errorf("read as %+v", set)
	}
	if back := statusOf(set.Status); !equality.Semantic.DeepEqual(back, rc.Status) {
		t.Errorf("the status comes back as %+v", back)
	}
}
