package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/services/controllers/view"
)

// ChangeHandler queues the Deployments that a change of another object concerns.
type ChangeHandler struct {
	// Deployment and DeploymentsIn find Deployments in the view, and ReplicaSet finds a ReplicaSet.
	Deployment    func(view.Key) (*appsv1.Deployment, bool)
	DeploymentsIn func(namespace string) []*appsv1.Deployment
	ReplicaSet    func(view.Key) (*appsv1.ReplicaSet, bool)
	// Enqueue queues a Deployment.
	Enqueue func(view.Key)
}

// SetChanged queues the Deployments that a ReplicaSet concerns. old is nil for a new set, and now
// for one that is gone.
func (w ChangeHandler) SetChanged(old, now *appsv1.ReplicaSet) {
	owned := false
	for _, set := range []*appsv1.ReplicaSet{old, now} {
		if set == nil {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
			owned = true
			if owner.Kind == "Deployment" {
				w.Enqueue(view.Key{Namespace: set.Namespace, Name: owner.Name})
			}
		}
	}
	if owned || now == nil {
		return
	}
	for _, deployment := range w.DeploymentsIn(now.Namespace) {
		selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(now.Labels)) {
			w.Enqueue(view.KeyOf(deployment))
		}
	}
}

// PodChanged queues a Deployment that waits until all its old pods are gone.
func (w ChangeHandler) PodChanged(old, now *corev1.Pod) {
	if now != nil && (old == nil || old.Status.Phase == now.Status.Phase) {
		return
	}
	owner := metav1.GetControllerOfNoCopy(old)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return
	}
	set, ok := w.ReplicaSet(view.Key{Namespace: old.Namespace, Name: owner.Name})
	if !ok {
		return
	}
	if above := metav1.GetControllerOfNoCopy(set); above != nil && above.Kind == "Deployment" {
		key := view.Key{Namespace: old.Namespace, Name: above.Name}
		if d, ok := w.Deployment(key); ok && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			w.Enqueue(key)
		}
	}
}
