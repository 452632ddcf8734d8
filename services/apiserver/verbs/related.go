package verbs

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/services/apiserver/store"
)

// related implements admission.Related: what the pods of a node refer to, the volumes of their
// claims, and the node's own attachments.
func (a *API) related(node, resource, namespace, name string) bool {
	get := func() any {
		if record := a.Store.Snapshot().Get(store.Key{Resource: resource, Name: name}); record != nil {
			return record.Object
		}
		return nil
	}
	switch resource {
	case "persistentvolumes":
		volume, is := get().(*corev1.PersistentVolume)
		return is && volume.Spec.ClaimRef != nil &&
			a.Graph.Refers(node, podrefs.Claims, volume.Spec.ClaimRef.Namespace, volume.Spec.ClaimRef.Name)
	case "volumeattachments.storage.k8s.io":
		attachment, is := get().(*storagev1.VolumeAttachment)
		return is && attachment.Spec.NodeName == node
	}
	return a.Graph.Refers(node, resource, namespace, name)
}
