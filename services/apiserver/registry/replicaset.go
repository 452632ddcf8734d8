package registry

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// replicaSetRules returns the rules of ReplicaSets.
func replicaSetRules() rules[*appsv1.ReplicaSet] {
	return rules[*appsv1.ReplicaSet]{
		defaults: func(rs *appsv1.ReplicaSet) { fillPointer(&rs.Spec.Replicas, 1) },
		validate: func(rs *appsv1.ReplicaSet) field.ErrorList {
			f := &findings{}
			at := field.NewPath("spec")
			checkNotNegatives(f, at, namedNumber[int32]{"replicas", rs.Spec.Replicas}, number("minReadySeconds", rs.Spec.MinReadySeconds))
			f.checkSelectorAndTemplate(at, rs.Spec.Selector, &rs.Spec.Template)
			return f.errs
		},
		validateUpdate: func(rs, old *appsv1.ReplicaSet) field.ErrorList {
			return validation.ValidateImmutableField(rs.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
		},
		validateStatus: func(rs, _ *appsv1.ReplicaSet) field.ErrorList {
			status := rs.Status
			return validateReplicaCounts(replicaCounts{
				status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas, status.ObservedGeneration,
			})
		},
	}
}

// replicationControllerRules returns the rules of ReplicationControllers.
func replicationControllerRules() rules[*corev1.ReplicationController] {
	return rules[*corev1.ReplicationController]{
		defaults: defaultReplicationController,
		validate: validateReplicationController,
		validateStatus: func(rc, _ *corev1.ReplicationController) field.ErrorList {
			status := rc.Status
			return validateReplicaCounts(replicaCounts{
				status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas, status.ObservedGeneration,
			})
		},
	}
}

// defaultReplicationController uses the Pods' labels for a missing selector and missing labels.
func defaultReplicationController(rc *corev1.ReplicationController) {
	if rc.Spec.Template != nil && len(rc.Spec.Template.Labels) > 0 {
		if len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = maps.Clone(rc.Spec.Template.Labels)
		}
		if len(rc.Labels) == 0 {
			rc.Labels = maps.Clone(rc.Spec.Template.Labels)
		}
	}
	fillPointer(&rc.Spec.Replicas, 1)
}

func validateReplicationController(rc *corev1.ReplicationController) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	checkNotNegatives(f, at, number("minReadySeconds", rc.Spec.MinReadySeconds))
	if len(rc.Spec.Selector) == 0 {
		f.required(at.Child("selector"), "")
	}
	checkNotNegatives(f, at, namedNumber[int32]{"replicas", rc.Spec.Replicas})
	templateAt := at.Child("template")
	if rc.Spec.Template == nil {
		f.required(templateAt, "")
		return f.errs
	}
	if len(rc.Spec.Selector) > 0 {
		f.checkTemplateSelected(templateAt, rc.Spec.Template, labels.SelectorFromSet(rc.Spec.Selector))
	}
	f.checkTemplate(templateAt, rc.Spec.Template)
	f.checkRestartAlways(templateAt, rc.Spec.Template, "ReplicationController")
	return f.errs
}

// replicaCounts are the numbers in the status of a ReplicaSet.
type replicaCounts struct {
	replicas, labelled, ready, available int32
	observed                             int64
}

func validateReplicaCounts(c replicaCounts) field.ErrorList {
	f := &findings{}
	at := field.NewPath("status")
	labelled, ready, available := number("fullyLabeledReplicas", c.labelled), number("readyReplicas", c.ready), number("availableReplicas", c.available)
	checkNotNegatives(f, at, number("replicas", c.replicas), labelled, ready, available)
	checkNotNegatives(f, at, number("observedGeneration", c.observed))
	f.checkAtMost(at, c.replicas, "status.replicas", labelled, ready, available)
	f.checkAtMost(at, c.ready, "readyReplicas", available)
	return f.errs
}
