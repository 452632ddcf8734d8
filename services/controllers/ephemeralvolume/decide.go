// Package ephemeralvolume creates the claims of pods' ephemeral volumes. The pods own them.
package ephemeralvolume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decide returns the claim to create for a pod's volume; nil if there is nothing to do. have is the
// claim of that name or nil. It is an error if have belongs to something else.
func Decide(pod *corev1.Pod, volume corev1.Volume, have *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, error) {
	if volume.Ephemeral == nil || volume.Ephemeral.VolumeClaimTemplate == nil || pod.DeletionTimestamp != nil {
		return nil, nil
	}
	name := pod.Name + "-" + volume.Name
	if have != nil {
		if metav1.IsControlledBy(have, pod) {
			return nil, nil
		}
		return nil, fmt.Errorf("PVC %q was not created for pod %q (pod is not owner)", pod.Namespace+"/"+name, pod.Namespace+"/"+pod.Name)
	}
	template := volume.Ephemeral.VolumeClaimTemplate
	owner := metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: template.Spec,
	}, nil
}
