package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Changes of objects other than nodes and pods. A change of a volume or claim queues all waiting pods
// with volumes: that is simpler than finding the affected ones.

func usesVolumes(pod *corev1.Pod) bool { return len(pod.Spec.Volumes) > 0 }

// SetClaim stores a claim that is new or has changed.
func (s *State) SetClaim(claim *corev1.PersistentVolumeClaim) {
	s.related.storage.Claims[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
	s.requeueIf(usesVolumes)
}

// RemoveClaim removes a deleted claim.
func (s *State) RemoveClaim(claim *corev1.PersistentVolumeClaim) {
	delete(s.related.storage.Claims, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
}

// SetVolume stores a volume that is new or has changed.
func (s *State) SetVolume(volume *corev1.PersistentVolume) {
	s.related.storage.Volumes[volume.Name] = volume
	s.requeueIf(usesVolumes)
}

// RemoveVolume removes a deleted volume.
func (s *State) RemoveVolume(volume *corev1.PersistentVolume) {
	delete(s.related.storage.Volumes, volume.Name)
}

func setClass(s *State, class *storagev1.StorageClass) {
	s.related.storage.Classes[class.Name] = class
	s.requeueIf(usesVolumes)
}

func removeClass(s *State, class *storagev1.StorageClass) {
	delete(s.related.storage.Classes, class.Name)
}

func setNamespace(s *State, namespace *corev1.Namespace) {
	s.related.namespaces[namespace.Name] = namespace.Labels
}

func removeNamespace(s *State, namespace *corev1.Namespace) {
	delete(s.related.namespaces, namespace.Name)
}

func setBudget(s *State, budget *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		removeBudget(s, budget)
		return
	}
	s.related.budgets[budget.UID] = Budget{
		Namespace: budget.Namespace, Selector: selector, Allowed: budget.Status.DisruptionsAllowed, Disrupted: budget.Status.DisruptedPods,
	}
}

func removeBudget(s *State, budget *policyv1.PodDisruptionBudget) {
	delete(s.related.budgets, budget.UID)
}
