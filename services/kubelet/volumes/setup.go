package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podrefs"
)

// isMadeOfObjects reports whether a volume's files are made of objects that can change.
func isMadeOfObjects(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// pluginName returns the directory name of a volume's kind, as upstream names it.
func pluginName(v *corev1.Volume) string {
	kind := "other"
	switch {
	case v.EmptyDir != nil:
		kind = "empty-dir"
	case v.HostPath != nil:
		kind = "host-path"
	case v.ConfigMap != nil:
		kind = "configmap"
	case v.Secret != nil:
		kind = "secret"
	case v.DownwardAPI != nil:
		kind = "downward-api"
	case v.Projected != nil:
		kind = "projected"
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		kind = "csi"
	}
	return "kubernetes.io~" + kind
}

// setUp mounts a volume: its directory, the content and, last, the record.
func (m *Manager) setUp(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	r := &record{Namespace: pod.Namespace, Pod: pod.Name, Plugin: pluginName(v), Mounts: 1}
	var bound *corev1.PersistentVolume
	if claim := podrefs.ClaimName(pod, v); claim != "" {
		var err error
		if bound, err = m.attach(ctx, pod, v, claim, r); err != nil {
			return err
		}
	}
	err := m.Faults.Inject(ctx, fault.VolumeMount, attributesOf(pod.Namespace, pod.Name, v.Name))
	if err == nil {
		err = m.Root.MkdirAll(volumeDir(pod.UID, r.Plugin, v.Name), 0o755)
	}
	if err == nil {
		err = m.fill(ctx, pod, v, bound, r)
	}
	if err == nil {
		err = m.writeRecord(pod.UID, v.Name, r)
	}
	if err != nil && bound != nil {
		return &boundError{bound.Name, err}
	}
	return err
}

// boundError is the failure of a volume that messages call by its PersistentVolume's name.
type boundError struct {
	volume string
	error
}

func (e *boundError) Unwrap() error { return e.error }

// nameFor returns the name of a volume in messages.
func nameFor(v *corev1.Volume, err error) string {
	if bound, is := errors.AsType[*boundError](err); is {
		return bound.volume
	}
	return v.Name
}

// fill creates a volume's content.
func (m *Manager) fill(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, bound *corev1.PersistentVolume, r *record) (err error) {
	dir := volumeDir(pod.UID, r.Plugin, v.Name)
	switch {
	case isMadeOfObjects(v):
		r.ReadOnly = true
		return errors.Join(m.Root.Chmod(dir, 0o755), m.refresh(ctx, pod, v))
	case v.EmptyDir != nil:
		r.Medium = v.EmptyDir.Medium
		return m.Root.Chmod(dir, 0o777)
	case v.HostPath != nil:
		r.Path, err = m.hostPath(v.HostPath.Path, v.HostPath.Type)
		return err
	case bound != nil:
		r.Path, err = m.storageDir(bound)
		return err
	}
	return fmt.Errorf("podfall mounts no volume of this kind: want emptyDir, configMap, secret, downwardAPI, projected, hostPath, " +
		"persistentVolumeClaim or ephemeral")
}

// volumePath returns the directory of a mounted volume's files on the machine.
func (m *Manager) volumePath(pod *corev1.Pod, volume string, r *record) string {
	if r.Path != "" {
		return r.Path
	}
	return filepath.Join(m.Root.Name(), volumeDir(pod.UID, r.Plugin, volume))
}

// RelativePath returns the directory of a mounted volume's files below the manager's directory. It
// is empty if the volume is not mounted, or if its files are elsewhere and belong to no pod.
func (m *Manager) RelativePath(uid types.UID, volume string) string {
	r, err := m.readRecord(uid, volume)
	if err != nil || r == nil || r.Path != "" {
		return ""
	}
	return volumeDir(uid, r.Plugin, volume)
}

// Device returns the device attached for a mounted volume; empty if there is none or the volume is
// not mounted.
func (m *Manager) Device(uid types.UID, volume string) corev1.UniqueVolumeName {
	r, err := m.readRecord(uid, volume)
	if err != nil || r == nil {
		return ""
	}
	return r.Device
}

// Mounted returns the names of a pod's mounted volumes, sorted.
func (m *Manager) Mounted(uid types.UID) []string { return slices.Sorted(maps.Keys(m.records(uid))) }
