package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto/kinds"
)

// kindTable holds the kinds that volumes use.
type kindTable struct{ claims, volumes, attachments, nodes, accounts kinds.Kind }

func loadKinds() (kindTable, error) {
	var t kindTable
	for name, into := range map[string]*kinds.Kind{
		"persistentvolumeclaims": &t.claims, "persistentvolumes": &t.volumes,
		"volumeattachments.storage.k8s.io": &t.attachments, "nodes": &t.nodes, "serviceaccounts": &t.accounts,
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

// ErrUnreported says that the node's status does not list a volume as in use yet.
var ErrUnreported = fmt.Errorf("%w: it is not in the node's volumesInUse", errUnattached)

// attach finds a claim's volume and, if needed, waits for its attachment. The node first reports
// the volume in use, so that it is not detached, and mounts it when the attachment says so
// (CTL-20).
func (m *Manager) attach(
	ctx context.Context, pod *corev1.Pod, v *corev1.Volume, claim string, r *record,
) (*corev1.PersistentVolume, error) {
	bound, err := m.volumeOfClaim(ctx, pod, v, claim)
	if err != nil {
		return nil, &unprocessedError{pod.Namespace + "/" + claim, err}
	}
	if v.PersistentVolumeClaim != nil {
		r.ReadOnly = v.PersistentVolumeClaim.ReadOnly
	}
	if bound.Spec.CSI == nil {
		return bound, nil
	}
	r.Device = storage.DeviceName(bound.Spec.CSI)
	if reported := m.inUse.Add(r.Device, pod.UID, v.Name); !reported {
		return nil, ErrUnreported
	}
	obj, err := m.API.Get(ctx, podapi.Target{Kind: m.kinds.nodes, Name: m.Node}, metav1.GetOptions{})
	if err != nil {
		return nil, &boundError{bound.Name, err}
	}
	node, _ := obj.(*corev1.Node)
	if err := CheckNode(node, r.Device); err != nil {
		return nil, err
	}
	obj, err = m.API.Get(ctx, podapi.Target{Kind: m.kinds.attachments, Name: storage.AttachmentName(bound.Spec.CSI, m.Node)}, metav1.GetOptions{})
	attachment, _ := obj.(*storagev1.VolumeAttachment)
	if err := CheckAttachment(attachment, err); err != nil {
		if errors.Is(err, errUnattached) {
			return nil, err
		}
		return nil, &boundError{bound.Name, err}
	}
	return bound, nil
}

// CheckNode returns why a volume must not be mounted according to the API's object of the node, or
// nil. The node must list the volume as in use and, at the same time or later, as attached. A
// detaching controller removes the second first and then checks the first: one of the two sees the
// other (verifyControllerAttachedVolume).
func CheckNode(node *corev1.Node, device corev1.UniqueVolumeName) error {
	switch {
	case node == nil:
		return fmt.Errorf("%w: the API answered with something else", errUnattached)
	case !slices.Contains(node.Status.VolumesInUse, device):
		return ErrUnreported
	case !slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == device }):
		return fmt.Errorf("%w: it is not in the node's volumesAttached", errUnattached)
	}
	return nil
}

// CheckAttachment returns why a volume must not be mounted according to the API's answer about its
// VolumeAttachment, or nil.
func CheckAttachment(attachment *storagev1.VolumeAttachment, err error) error {
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return fmt.Errorf("%w: there is no VolumeAttachment", errUnattached)
	case err != nil:
		return err
	case attachment == nil:
		return fmt.Errorf("%w: the API answered with something else", errUnattached)
	case !attachment.Status.Attached || attachment.DeletionTimestamp != nil:
		return fmt.Errorf("%w: VolumeAttachment %s does not say so", errUnattached, attachment.Name)
	}
	return nil
}

// volumeOfClaim returns the volume that a claim is bound to.
func (m *Manager) volumeOfClaim(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, name string) (*corev1.PersistentVolume, error) {
	obj, err := m.API.Get(ctx, podapi.Target{Kind: m.kinds.claims, Namespace: pod.Namespace, Name: name}, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	claim, is := obj.(*corev1.PersistentVolumeClaim)
	if !is {
		return nil, fmt.Errorf("the API answered with a %T", obj)
	}
	if err := CheckClaim(pod, v, claim); err != nil {
		return nil, err
	}
	obj, err = m.API.Get(ctx, podapi.Target{Kind: m.kinds.volumes, Name: claim.Spec.VolumeName}, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	}
	volume, is := obj.(*corev1.PersistentVolume)
	if !is {
		return nil, fmt.Errorf("the API answered with a %T", obj)
	}
	return volume, CheckBound(volume, claim)
}

// CheckClaim returns why a pod cannot use a claim, or nil.
func CheckClaim(pod *corev1.Pod, v *corev1.Volume, claim *corev1.PersistentVolumeClaim) error {
	switch {
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
	case claim.DeletionTimestamp != nil:
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return errors.New("PVC is not bound")
	}
	return nil
}

// CheckBound returns why a volume does not belong to a claim that names it, or nil.
func CheckBound(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	if ref := volume.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return fmt.Errorf("PV %s is not bound to this PVC", volume.Name)
	}
	if mode := volume.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		return fmt.Errorf("PV %s has volumeMode Block: podfall mounts filesystems alone", volume.Name)
	}
	return nil
}

// storageDir returns the directory of a persistent volume's files. What a CSI driver would serve
// from elsewhere is a directory of the cluster, by the driver's name and the volume's handle, the
// same for all nodes. It is created at first use.
func (m *Manager) storageDir(v *corev1.PersistentVolume) (string, error) {
	switch source := v.Spec.PersistentVolumeSource; {
	case source.CSI != nil:
		dir, err := storage.VolumeDir(source.CSI)
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
