package statefulset

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// claimName is the name of a pod's claim for a template.
func (r *planning) claimName(template *corev1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, r.Set.Name, ordinal)
}

// setVolumes gives a pod the volumes of its claims. They replace the template's volumes of the same
// names (updateStorage).
func (r *planning) setVolumes(pod *corev1.Pod, ordinal int) {
	var volumes []corev1.Volume
	ours := map[string]bool{}
	for i := range r.Set.Spec.VolumeClaimTemplates {
		template := &r.Set.Spec.VolumeClaimTemplates[i]
		ours[template.Name] = true
		volumes = append(volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: r.claimName(template, ordinal)},
		}})
	}
	for _, volume := range pod.Spec.Volumes {
		if !ours[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	pod.Spec.Volumes = volumes
}

func (r *planning) hasVolumes(pod *corev1.Pod, ordinal int) bool {
	for i := range r.Set.Spec.VolumeClaimTemplates {
		template := &r.Set.Spec.VolumeClaimTemplates[i]
		if !slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
			return volume.Name == template.Name && volume.PersistentVolumeClaim != nil &&
				volume.PersistentVolumeClaim.ClaimName == r.claimName(template, ordinal)
		}) {
			return false
		}
	}
	return true
}

// planMissingClaims plans the pod's missing claims.
func (r *planning) planMissingClaims(pod *corev1.Pod) {
	ordinal := Ordinal(pod, r.Set)
	for i := range r.Set.Spec.VolumeClaimTemplates {
		template := &r.Set.Spec.VolumeClaimTemplates[i]
		name := r.claimName(template, ordinal)
		if r.Claims[name] != nil {
			continue
		}
		claim := template.DeepCopy()
		claim.Namespace, claim.Name = r.Set.Namespace, name
		claim.Labels = maps.Clone(claim.Labels)
		if claim.Labels == nil {
			claim.Labels = map[string]string{}
		}
		if r.Set.Spec.Selector != nil {
			maps.Copy(claim.Labels, r.Set.Spec.Selector.MatchLabels)
		}
		claim.OwnerReferences = r.desiredOwners(claim, pod, staying)
		claim.Status = corev1.PersistentVolumeClaimStatus{}
		r.CreateClaims = append(r.CreateClaims, claim)
	}
}

// hasStaleClaim reports whether a claim of a new pod belongs to a pod that was scaled away. The
// claim is about to be deleted, and the new pod waits for that (PodClaimIsStale).
func (r *planning) hasStaleClaim(pod *corev1.Pod) bool {
	if retains(r.whenScaled()) {
		return false
	}
	for i := range r.Set.Spec.VolumeClaimTemplates {
		claim := r.Claims[r.claimName(&r.Set.Spec.VolumeClaimTemplates[i], Ordinal(pod, r.Set))]
		if claim == nil {
			continue
		}
		for _, owner := range claim.OwnerReferences {
			if owner.Kind == "Pod" && owner.Name == pod.Name {
				return true
			}
		}
	}
	return false
}

// scaling is whether a pod stays, or leaves because the set is smaller.
type scaling bool

const (
	staying scaling = false
	leaving scaling = true
)

// planClaimOwners plans the owners of a pod's claims by the retention policy
// (UpdatePodClaimForRetentionPolicy).
func (r *planning) planClaimOwners(pod *corev1.Pod, fate scaling) {
	ordinal := Ordinal(pod, r.Set)
	for i := range r.Set.Spec.VolumeClaimTemplates {
		claim := r.Claims[r.claimName(&r.Set.Spec.VolumeClaimTemplates[i], ordinal)]
		if claim == nil || claim.DeletionTimestamp != nil {
			continue
		}
		owners := r.desiredOwners(claim, pod, fate)
		if kinds.Equal(owners, claim.OwnerReferences) {
			continue
		}
		changed := claim.DeepCopy()
		changed.OwnerReferences = owners
		r.UpdateClaims = append(r.UpdateClaims, changed)
	}
}

// desiredOwners are a claim's owners by the retention policy. The set owns a claim that is deleted
// with the set, and the pod one that is deleted with a scaled-down pod. Owners of other kinds stay.
func (r *planning) desiredOwners(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, fate scaling) []metav1.OwnerReference {
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: r.Set.Name, UID: r.Set.UID, Controller: new(true), BlockOwnerDeletion: new(true)}
	byPod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true)}
	scaled, deleted := !retains(r.whenScaled()), !retains(r.whenDeleted())
	var wanted *metav1.OwnerReference
	switch {
	case scaled && fate == leaving:
		wanted = &byPod
	case deleted:
		wanted = &set
	}
	var owners []metav1.OwnerReference
	found := false
	for _, owner := range claim.OwnerReferences {
		switch {
		case wanted != nil && owner.UID == wanted.UID:
			found = true
		case owner.UID == r.Set.UID, owner.Kind == "Pod" && owner.Name == pod.Name:
			continue
		}
		owners = append(owners, owner)
	}
	if wanted != nil && !found {
		owners = append(owners, *wanted)
	}
	return owners
}

func (r *planning) whenScaled() appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy := r.Set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		return policy.WhenScaled
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

func (r *planning) whenDeleted() appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy := r.Set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		return policy.WhenDeleted
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

func retains(policy appsv1.PersistentVolumeClaimRetentionPolicyType) bool {
	return policy != appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}
