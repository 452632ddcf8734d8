package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Storage is the scheduler's view of volumes.
type Storage struct {
	Claims  map[types.NamespacedName]*corev1.PersistentVolumeClaim
	Volumes map[string]*corev1.PersistentVolume
	Classes map[string]*storagev1.StorageClass
}

// NewStorage returns an empty view.
func NewStorage() *Storage {
	return &Storage{
		Claims:  map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		Volumes: map[string]*corev1.PersistentVolume{},
		Classes: map[string]*storagev1.StorageClass{},
	}
}

// selectedNode is the annotation with the node of the claim's first consumer.
const selectedNode = "volume.kubernetes.io/selected-node"

// podVolumes are the volumes that a node has to provide for a pod.
type podVolumes struct {
	storage *Storage
	// bound are volumes that the node must reach; delayed are claims that wait for the pod's node.
	bound   []*corev1.PersistentVolume
	delayed []*corev1.PersistentVolumeClaim
	// holderNodes has the nodes of pods that use a ReadWriteOncePod claim of this pod.
	holderNodes map[string]bool
}

// readPodVolumes looks up the pod's claims. impossible is why no node will fit.
func readPodVolumes(pod *corev1.Pod, world World) (found podVolumes, impossible string) {
	found.storage = world.Storage
	for _, volume := range pod.Spec.Volumes {
		name := claimName(pod, volume)
		if name == "" {
			continue
		}
		claim := findClaim(world.Storage, pod.Namespace, name)
		if problem := found.addClaim(claim, name); problem != "" {
			return found, problem
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			found.addHolders(pod, name, world)
		}
	}
	return found, ""
}

func findClaim(storage *Storage, namespace, name string) *corev1.PersistentVolumeClaim {
	if storage == nil {
		return nil
	}
	return storage.Claims[types.NamespacedName{Namespace: namespace, Name: name}]
}

// claimName is the claim behind a pod's volume; empty if there is none.
func claimName(pod *corev1.Pod, volume corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}

// addClaim adds one claim, or says why the pod cannot be scheduled with it.
func (v *podVolumes) addClaim(claim *corev1.PersistentVolumeClaim, name string) string {
	switch {
	case claim == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", name)
	case claim.DeletionTimestamp != nil:
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.Spec.VolumeName != "" && claim.Annotations["pv.kubernetes.io/bind-completed"] != "":
		volume := v.storage.Volumes[claim.Spec.VolumeName]
		if volume == nil {
			return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
		}
		v.bound = append(v.bound, volume)
		return ""
	case claim.Spec.VolumeName == "" && v.isDelayed(claim):
		v.delayed = append(v.delayed, claim)
		return ""
	}
	return messageUnbound
}

// isDelayed reports whether the claim's class binds at the first consumer.
func (v *podVolumes) isDelayed(claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.StorageClassName == nil {
		return false
	}
	class := v.storage.Classes[*claim.Spec.StorageClassName]
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// addHolders records the nodes with pods that use a ReadWriteOncePod claim.
func (v *podVolumes) addHolders(pod *corev1.Pod, name string, world World) {
	for _, node := range world.Nodes {
		for _, other := range node.Pods {
			if other.Namespace == pod.Namespace && other.UID != pod.UID &&
				slices.ContainsFunc(other.Spec.Volumes, func(volume corev1.Volume) bool { return claimName(other, volume) == name }) {
				if v.holderNodes == nil {
					v.holderNodes = map[string]bool{}
				}
				v.holderNodes[node.Name] = true
			}
		}
	}
}

func (v *podVolumes) checkNode(node *NodeView) Refusal {
	switch {
	case len(v.holderNodes) > 0:
		return Refusal{Reasons: []string{reasonReadWriteOncePod}, Unresolvable: !v.holderNodes[node.Name]}
	case slices.ContainsFunc(v.bound, func(volume *corev1.PersistentVolume) bool { return !isReachable(volume, node.Object) }):
		return Refusal{Reasons: []string{reasonVolumeNode}, Unresolvable: true}
	case slices.ContainsFunc(v.delayed, func(claim *corev1.PersistentVolumeClaim) bool { return !v.canBind(claim, node) }):
		return Refusal{Reasons: []string{reasonNoVolume}, Unresolvable: true}
	}
	return Refusal{}
}

// canBind reports whether a claim can have a volume on the node, a new one or an existing one.
func (v *podVolumes) canBind(claim *corev1.PersistentVolumeClaim, node *NodeView) bool {
	if chosen := claim.Annotations[selectedNode]; chosen != "" && chosen != node.Name {
		return false
	}
	class := v.storage.Classes[*claim.Spec.StorageClassName]
	if class.Provisioner != "kubernetes.io/no-provisioner" {
		return true
	}
	for _, volume := range v.storage.Volumes {
		if volume.Spec.StorageClassName == class.Name && volume.Spec.ClaimRef == nil && isReachable(volume, node.Object) && satisfiesClaim(volume, claim) {
			return true
		}
	}
	return false
}

func satisfiesClaim(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	have, wanted := volume.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return have.Cmp(wanted) >= 0 && !slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(volume.Spec.AccessModes, mode)
	})
}

func isReachable(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(volume.Spec.NodeAffinity.Required)
	return err == nil && selector.Match(node)
}
