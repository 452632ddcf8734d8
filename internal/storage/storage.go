// Package storage is what the processes of a cluster have to agree on about persistent
// volumes without asking each other: what they are called on a node, where their files are,
// and which class a claim gets. It is pure.
package storage

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Device is the unique name of a CSI volume in a node's status.
func Device(source *corev1.CSIPersistentVolumeSource) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + source.Driver + "^" + source.VolumeHandle)
}

// Shared reports whether a volume may be on several nodes at once.
func Shared(volume *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(volume.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// AttachmentName is what the attachment of a CSI volume to a node is called.
func AttachmentName(source *corev1.CSIPersistentVolumeSource, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(source.VolumeHandle+source.Driver+node)))
}

// Dir is where the files of a CSI volume are, as a path inside the directory of the
// cluster's volumes: by the driver's name and the volume's handle, whatever is in it.
func Dir(source *corev1.CSIPersistentVolumeSource) (string, error) {
	handle := url.PathEscape(source.VolumeHandle)
	for field, name := range map[string]string{"spec.csi.driver": source.Driver, "spec.csi.volumeHandle": handle} {
		if name == "" || name == "." || name == ".." || len(name) > 253 || strings.ContainsAny(name, "/\\\x00") {
			return "", fmt.Errorf("%s: %q: want a name without slashes", field, name)
		}
	}
	return path.Join(source.Driver, handle), nil
}

// DefaultAnnotation marks the class that claims get which name none.
const DefaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// Classless reports whether a claim names no class, which is not the same as to name the
// empty one (PersistentVolumeClaimHasClass).
func Classless(claim *corev1.PersistentVolumeClaim) bool {
	_, old := claim.Annotations[corev1.BetaStorageClassAnnotation]
	return !old && claim.Spec.StorageClassName == nil
}

// DefaultClass is the class of claims that name none: of several defaults the newest, and of
// equally old ones the first by name; nil without one (GetDefaultClass).
func DefaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, class := range classes {
		if class.Annotations[DefaultAnnotation] != "true" {
			continue
		}
		older := found != nil && class.CreationTimestamp.Before(&found.CreationTimestamp)
		same := found != nil && class.CreationTimestamp.Equal(&found.CreationTimestamp)
		if found == nil || !older && (!same || class.Name < found.Name) {
			found = class
		}
	}
	return found
}
