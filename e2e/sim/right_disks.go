package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/attachdetach"
)

// ErrDisks is an end in which something else is attached than what is used.
var ErrDisks = errors.New("in the end something else is attached than what is used")

// rightDisks wants every disk to be attached where a pod uses it, and nowhere else, and each
// node to have mounted, to use and to be told of those alone.
func (c *cluster) rightDisks(snapshot *store.Snapshot) (wrong []error) {
	claims, volumes := map[name]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}
	for _, claim := range objectsOf[*corev1.PersistentVolumeClaim](snapshot, claimsResource) {
		claims[nameOf(claim)] = claim
	}
	for _, volume := range objectsOf[*corev1.PersistentVolume](snapshot, volumesResource) {
		volumes[volume.Name] = volume
	}
	find := attachdetach.Lookup{
		Claim: func(namespace, called string) (*corev1.PersistentVolumeClaim, bool) {
			claim, known := claims[name{namespace, called}]
			return claim, known
		},
		Volume: func(called string) (*corev1.PersistentVolume, bool) {
			volume, known := volumes[called]
			return volume, known
		},
	}
	used, attached := map[string]map[corev1.UniqueVolumeName]bool{}, map[string]map[corev1.UniqueVolumeName]bool{}
	put := func(to map[string]map[corev1.UniqueVolumeName]bool, node string, volume *corev1.PersistentVolume) {
		if to[node] == nil {
			to[node] = map[corev1.UniqueVolumeName]bool{}
		}
		to[node][attachdetach.DeviceName(volume)] = true
	}
	for _, use := range attachdetach.UsesOf(objectsOf[*corev1.Pod](snapshot, "pods"), find) {
		put(used, use.Pod.Spec.NodeName, use.Volume)
	}
	for _, a := range objectsOf[*storagev1.VolumeAttachment](snapshot, attachmentsResource) {
		if a.Status.Attached && a.DeletionTimestamp == nil {
			put(attached, a.Spec.NodeName, volumes[*a.Spec.Source.PersistentVolumeName])
		} else {
			wrong = append(wrong, fmt.Errorf("%w: %s is on its way to %s, or from there", ErrDisks, *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName))
		}
	}
	for _, node := range objectsOf[*corev1.Node](snapshot, "nodes") {
		wanted := slices.Sorted(maps.Keys(used[node.Name]))
		var told []corev1.UniqueVolumeName
		for _, one := range node.Status.VolumesAttached {
			told = append(told, one.Name)
		}
		for _, has := range []struct {
			devices []corev1.UniqueVolumeName
			what    string
		}{
			{slices.Sorted(maps.Keys(attached[node.Name])), "are attached"},
			{c.kernels[node.Name].devices(), "are mounted"},
			{node.Status.VolumesInUse, "the node says that it uses"},
			{told, "the node was told of"},
		} {
			if !slices.Equal(wanted, has.devices) {
				wrong = append(wrong, fmt.Errorf("%w: pods on %s use %v, and %v %s", ErrDisks, node.Name, wanted, has.devices, has.what))
			}
		}
	}
	return wrong
}
