// Package replication keeps as many pods of a template as a ReplicationController asks
// for: it reads it as a ReplicaSet and has package replicaset decide and act.
package replication

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/replicaset"
	"github.com/podfall/podfall/services/controllers/view"
)

// New is the controller of ReplicationControllers.
func New(base control.Base) *replicaset.Controller {
	copies := view.Of[*corev1.ReplicationController](base.Views, "replicationcontrollers")
	client := control.Of[*corev1.ReplicationController](base.API, "replicationcontrollers")
	c := replicaset.NewFor(base, "replication-controller", replicaset.Sets{
		Kind: copies.Kind(),
		Get: func(key view.Key) (*appsv1.ReplicaSet, bool) {
			found, ok := copies.Get(key)
			if !ok {
				return nil, false
			}
			return AsSet(found), true
		},
		In: func(namespace string) []*appsv1.ReplicaSet {
			var sets []*appsv1.ReplicaSet
			for _, one := range copies.InNamespace(namespace) {
				sets = append(sets, AsSet(one))
			}
			return sets
		},
		NoTerminatingReplicas: true,
		Siblings:              func(*appsv1.ReplicaSet) []*appsv1.ReplicaSet { return nil },
		Fresh: func(ctx context.Context, key view.Key) (kinds.Object, error) {
			return client.Get(ctx, key.Namespace, key.Name)
		},
		UpdateStatus: func(ctx context.Context, set *appsv1.ReplicaSet) error {
			changed, ok := copies.Get(view.KeyOf(set))
			if !ok || changed.UID != set.UID {
				return nil
			}
			changed = changed.DeepCopy()
			changed.ResourceVersion = set.ResourceVersion
			changed.Status = statusOf(set.Status)
			_, err := client.UpdateStatus(ctx, changed)
			return err
		},
		Object: func(set *appsv1.ReplicaSet) kinds.Object {
			about := &corev1.ReplicationController{ObjectMeta: set.ObjectMeta}
			about.SetGroupVersionKind(copies.Kind().GroupVersionKind)
			return about
		},
	})
	copies.OnChange(func(old, now *corev1.ReplicationController) {
		if now == nil {
			c.Changed(AsSet(old), nil)
			return
		}
		c.Changed(nil, AsSet(now))
	})
	return c
}

// AsSet reads a ReplicationController as a ReplicaSet. One that counts no terminating pods
// has none, so that its status is not news for ever.
func AsSet(rc *corev1.ReplicationController) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{ObjectMeta: rc.ObjectMeta}
	set.Spec.Replicas, set.Spec.MinReadySeconds = rc.Spec.Replicas, rc.Spec.MinReadySeconds
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	if rc.Spec.Template != nil {
		set.Spec.Template = *rc.Spec.Template
		if len(rc.Spec.Selector) == 0 {
			set.Spec.Selector.MatchLabels = rc.Spec.Template.Labels
		}
	}
	status := rc.Status
	set.Status = appsv1.ReplicaSetStatus{
		Replicas: status.Replicas, FullyLabeledReplicas: status.FullyLabeledReplicas, ReadyReplicas: status.ReadyReplicas,
		AvailableReplicas: status.AvailableReplicas, ObservedGeneration: status.ObservedGeneration,
	}
	for _, one := range status.Conditions {
		set.Status.Conditions = append(set.Status.Conditions, appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetConditionType(one.Type), Status: one.Status, LastTransitionTime: one.LastTransitionTime,
			Reason: one.Reason, Message: one.Message,
		})
	}
	return set
}

func statusOf(status appsv1.ReplicaSetStatus) corev1.ReplicationControllerStatus {
	written := corev1.ReplicationControllerStatus{
		Replicas: status.Replicas, FullyLabeledReplicas: status.FullyLabeledReplicas, ReadyReplicas: status.ReadyReplicas,
		AvailableReplicas: status.AvailableReplicas, ObservedGeneration: status.ObservedGeneration,
	}
	for _, one := range status.Conditions {
		written.Conditions = append(written.Conditions, corev1.ReplicationControllerCondition{
			Type: corev1.ReplicationControllerConditionType(one.Type), Status: one.Status, LastTransitionTime: one.LastTransitionTime,
			Reason: one.Reason, Message: one.Message,
		})
	}
	return written
}
