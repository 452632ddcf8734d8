// Package storage holds conventions about persistent volumes that all processes of a cluster share:
// names on a node, paths of files, and the default class. It is pure.
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

// DeviceName returns the unique name of a CSI volume in a node's status.
func DeviceName(source *corev1.CSIPersistentVolumeSource) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + source.Driver + "^" + source.VolumeHandle)
}

// IsShared reports whether a volume may be on several nodes at once.
func IsShared(volume *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(volume.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany
	})
}

// AttachmentName returns the name of the VolumeAttachment of a CSI volume and a node.
func AttachmentName(source *corev1.CSIPersistentVolumeSource, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(source.VolumeHandle+source.Driver+node)))
}

// VolumeDir returns the path of a CSI volume's files, relative to the cluster's volume directory.
// It consists of driver name and volume handle, whatever they contain.
func VolumeDir(source *corev1.CSIPersistentVolumeSource) (string, error) {
	handle := url.PathEscape(source.VolumeHandle)
	for field, name := range map[string]string{"spec.csi.driver": source.Driver, "spec.csi.volumeHandle": handle} {
		if name == "" || name == "." || name == ".." || len(name) > 253 || strings.ContainsAny(name, "/\\\x00") {
			return "", fmt.Errorf("%s: %q: want a name without slashes", field, name)
		}
	}
	return path.Join(source.Driver, handle), nil
}

// DefaultAnnotation marks the class for claims that name none.
const DefaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// HasNoClass reports whether a claim names no class, which differs from naming the empty class
// (PersistentVolumeClaimHasClass).
func HasNoClass(claim *corev1.PersistentVolumeClaim) bool {
	_, old := claim.Annotations[corev1.BetaStorageClassAnnotation]
	return !old && claim.Spec.StorageClassName == nil
}

// DefaultClass returns the class for claims that name none: of several defaults the newest, and of
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
