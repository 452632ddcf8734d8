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

// claimName is the name of the claim that a pod has of a template.
func (r *round) claimName(template *corev1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, r.Set.Name, ordinal)
}

// mount gives a pod the volumes of its claims; what the template says under those names goes
// (updateStorage).
func (r *round) mount(pod *corev1.Pod, ordinal int) {
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

func (r *round) mounted(pod *corev1.Pod, ordinal int) bool {
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

// claims plans the claims of a pod that are missing.
func (r *round) claims(pod *corev1.Pod) {
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
		claim.OwnerReferences = r.owners(claim, pod, staying)
		claim.Status = corev1.PersistentVolumeClaimStatus{}
		r.Make = append(r.Make, claim)
	}
}

// staleClaims reports whether a claim of a new pod belongs to a pod that was scaled away: it
// is about to be deleted, and the pod waits for that (PodClaimIsStale).
func (r *round) staleClaims(pod *corev1.Pod) bool {
	if keeps(r.scaled()) {
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

// fate is what becomes of a pod: it stays, or leaves because the set is smaller.
type fate bool

const (
	staying fate = false
	leaving fate = true
)

// own plans the owners of a pod's claims, by the policy of retention
// (UpdatePodClaimForRetentionPolicy).
func (r *round) own(pod *corev1.Pod, fate fate) {
	ordinal := Ordinal(pod, r.Set)
	for i := range r.Set.Spec.VolumeClaimTemplates {
		claim := r.Claims[r.claimName(&r.Set.Spec.VolumeClaimTemplates[i], ordinal)]
		if claim == nil || claim.DeletionTimestamp != nil {
			continue
		}
		owners := r.owners(claim, pod, fate)
		if kinds.Equal(owners, claim.OwnerReferences) {
			continue
		}
		changed := claim.DeepCopy()
		changed.OwnerReferences = owners
		r.Own = append(r.Own, changed)
	}
}

// owners are a claim's: the set if it is to go with it, the pod if it is to go with a pod that
// leaves, nobody if it is kept; and whoever else owns it.
func (r *round) owners(claim *corev1.PersistentVolumeClaim, pod *corev1.Pod, fate fate) []metav1.OwnerReference {
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: r.Set.Name, UID: r.Set.UID, Controller: new(true), BlockOwnerDeletion: new(true)}
	byPod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true), BlockOwnerDeletion: new(true)}
	scaled, deleted := !keeps(r.scaled()), !keeps(r.deleted())
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

func (r *round) scaled() appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy := r.Set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		return policy.WhenScaled
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

func (r *round) deleted() appsv1.PersistentVolumeClaimRetentionPolicyType {
	if policy := r.Set.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		return policy.WhenDeleted
	}
	return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
}

func keeps(policy appsv1.PersistentVolumeClaimRetentionPolicyType) bool {
	return policy != appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}
