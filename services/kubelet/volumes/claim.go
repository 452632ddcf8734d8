package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto/kinds"
)

// table are the kinds that volumes speak of.
type table struct{ claims, volumes, attachments, accounts kinds.Kind }

func loadTable() (table, error) {
	var t table
	for name, into := range map[string]*kinds.Kind{
		"persistentvolumeclaims": &t.claims, "persistentvolumes": &t.volumes,
		"volumeattachments.storage.k8s.io": &t.attachments, "serviceaccounts": &t.accounts,
	} {
		kind, ok := kinds.ByResource(name)
		if !ok {
			return t, fmt.Errorf("the table of kinds has no %s", name)
		}
		*into = kind
	}
	return t, nil
}

// unprocessedError says that a claim does not lead to a volume.
type unprocessedError struct {
	claim string
	err   error
}

// Error implements error in upstream's words.
func (e *unprocessedError) Error() string {
	return fmt.Sprintf("error processing PVC %s: %v", e.claim, e.err)
}

func (e *unprocessedError) Unwrap() error { return e.err }

// errUnattached says that a volume is not attached to the node yet.
var errUnattached = errors.New("volume is not attached to the node")

// attach follows a claim to its volume and waits for that to be attached, if it needs to:
// the node says first that it uses it, so that it is not taken away again, and mounts it
// when the attachment says so (CTL-20).
func (m *Manager) attach(
	ctx context.Context, pod *corev1.Pod, v *corev1.Volume, claim string, r *record,
) (*corev1.PersistentVolume, error) {
	bound, err := m.boundTo(ctx, pod, v, claim)
	if err != nil {
		return nil, &unprocessedError{pod.Namespace + "/" + claim, err}
	}
	if v.PersistentVolumeClaim != nil {
		r.ReadOnly = v.PersistentVolumeClaim.ReadOnly
	}
	if bound.Spec.CSI == nil {
		return bound, nil
	}
	r.Device = storage.Device(bound.Spec.CSI)
	if reported := m.inUse.add(r.Device, use{pod.UID, v.Name}); !reported {
		return nil, fmt.Errorf("%w: it is not in the node's volumesInUse", errUnattached)
	}
	obj, err := m.API.Get(ctx, podapi.Target{Kind: m.kinds.attachments, Name: storage.AttachmentName(bound.Spec.CSI, m.Node)}, metav1.GetOptions{})
	attachment, is := obj.(*storagev1.VolumeAttachment)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: there is no VolumeAttachment", errUnattached)
	case err != nil:
		return nil, &boundError{bound.Name, err}
	case !is || !attachment.Status.Attached || attachment.DeletionTimestamp != nil:
		return nil, fmt.Errorf("%w: VolumeAttachment %s does not say so", errUnattached, obj.GetName())
	}
	return bound, nil
}

// boundTo is the volume that a claim is bound to.
func (m *Manager) boundTo(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, name string) (*corev1.PersistentVolume, error) {
	obj, err := m.API.Get(ctx, podapi.Target{Kind: m.kinds.claims, Namespace: pod.Namespace, Name: name}, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	claim, is := obj.(*corev1.PersistentVolumeClaim)
	switch {
	case !is:
		return nil, fmt.Errorf("the API answered with a %T", obj)
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return nil, fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
	case claim.DeletionTimestamp != nil:
		return nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return nil, errors.New("PVC is not bound")
	}
	obj, err = m.API.Get(ctx, podapi.Target{Kind: m.kinds.volumes, Name: claim.Spec.VolumeName}, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	}
	volume, is := obj.(*corev1.PersistentVolume)
	if !is {
		return nil, fmt.Errorf("the API answered with a %T", obj)
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return nil, fmt.Errorf("PV %s is not bound to this PVC", volume.Name)
	}
	if mode := volume.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		return nil, fmt.Errorf("PV %s has volumeMode Block: podfall mounts filesystems alone", volume.Name)
	}
	return volume, nil
}

// storage is where the files of a persistent volume are. What a CSI driver would serve from
// elsewhere, podfall's own among them, is a directory of the cluster by the driver's name
// and the volume's handle, the same for all nodes; it is made here the first time.
func (m *Manager) storage(v *corev1.PersistentVolume) (string, error) {
	switch source := v.Spec.PersistentVolumeSource; {
	case source.CSI != nil:
		dir, err := storage.Dir(source.CSI)
		if err != nil {
			return "", err
		}
		if err := mkdirAll(m.Storage, dir, 0o777); err != nil {
			return "", err
		}
		return filepath.Join(m.Storage.Name(), dir), nil
	case source.HostPath != nil:
		return m.hostPath(source.HostPath.Path, source.HostPath.Type)
	case source.Local != nil:
		return m.hostPath(source.Local.Path, new(corev1.HostPathDirectory))
	}
	return "", errors.New("podfall mounts no persistent volume of this kind: want csi, hostPath or local")
}
