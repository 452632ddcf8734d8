// Package replicaset keeps as many pods of a template as a ReplicaSet asks for (CTL-30). decide.go
// says how many are missing, which are too many, and what the status says. controller.go watches,
// claims, decides and acts. ReplicationControllers differ only in names: package replication runs
// this controller for them.
package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Burst is the largest number of pods that are created or deleted at once.
const Burst = 500

// View is the state of one ReplicaSet.
type View struct {
	Set *appsv1.ReplicaSet
	// Active are the pods that count, Terminating those that are being deleted.
	Active, Terminating []*corev1.Pod
	// Stale says that the view does not show the last writes yet.
	Stale bool
	// Related returns the pods of the set and its siblings, the sets of the same Deployment; nil
	// means none.
	Related func() []*corev1.Pod
}

// Plan is the result of Decide.
type Plan struct {
	// Create is how many pods to create, Delete are the pods to delete; never both.
	Create int
	Delete []*corev1.Pod
}

// Decide returns what to do at now (manageReplicas).
func Decide(v View, now time.Time) Plan {
	if v.Stale || v.Set.DeletionTimestamp != nil {
		return Plan{}
	}
	missing := int(Replicas(v.Set)) - len(v.Active)
	switch {
	case missing > 0:
		return Plan{Create: min(missing, Burst)}
	case missing < 0:
		var related []*corev1.Pod
		if v.Related != nil {
			related = v.Related()
		}
		return Plan{Delete: workload.ToDelete(v.Active, related, min(-missing, Burst), now)}
	}
	return Plan{}
}

// Replicas returns the wanted number of pods; the default is 1.
func Replicas(set *appsv1.ReplicaSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// Status returns the status at now. failed is the error of applying the plan (calculateStatus).
func Status(v View, failed error, now time.Time) appsv1.ReplicaSetStatus {
	status := *v.Set.Status.DeepCopy()
	status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = int32(len(v.Active)), 0, 0, 0
	template := labels.Set(v.Set.Spec.Template.Labels).AsSelectorPreValidated()
	for _, pod := range v.Active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if workload.IsReady(pod) {
			status.ReadyReplicas++
		}
		if workload.IsAvailable(pod, v.Set.Spec.MinReadySeconds, now) {
			status.AvailableReplicas++
		}
	}
	status.TerminatingReplicas = new(int32(len(v.Terminating)))
	status.ObservedGeneration = v.Set.Generation
	status.Conditions = conditions(v, status.Conditions, failed, now)
	return status
}

// conditions returns the conditions, with ReplicaFailure while there is a failure.
func conditions(v View, known []appsv1.ReplicaSetCondition, failed error, now time.Time) []appsv1.ReplicaSetCondition {
	var kept []appsv1.ReplicaSetCondition
	for _, condition := range known {
		if condition.Type != appsv1.ReplicaSetReplicaFailure {
			kept = append(kept, condition)
		} else if failed != nil {
			return known
		}
	}
	diff := len(v.Active) - int(Replicas(v.Set))
	if failed == nil || diff == 0 {
		return kept
	}
	reason := "FailedDelete"
	if diff < 0 {
		reason = "FailedCreate"
	}
	return append(kept, appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Time{Time: now.Truncate(time.Second)}, Reason: reason, Message: failed.Error(),
	})
}

// RecheckAfter returns how long after now the status changes because a ready pod becomes available;
// 0 means never.
func RecheckAfter(v View, now time.Time) time.Duration {
	return workload.NextAvailable(v.Active, v.Set.Spec.MinReadySeconds, now)
}
