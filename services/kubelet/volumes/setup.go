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

// changing reports whether a volume's files are made of objects that change.
func changing(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// plugin is the directory name of a volume's kind, as upstream names it.
func plugin(v *corev1.Volume) string {
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

// setUp mounts a volume: its directory, what is in it, and the record, last.
func (m *Manager) setUp(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	r := &record{Namespace: pod.Namespace, Pod: pod.Name, Plugin: plugin(v), Mounts: 1}
	var bound *corev1.PersistentVolume
	if claim := podrefs.ClaimName(pod, v); claim != "" {
		var err error
		if bound, err = m.attach(ctx, pod, v, claim, r); err != nil {
			return err
		}
	}
	err := m.Faults.Inject(ctx, fault.VolumeMount, about(pod.Namespace, pod.Name, v.Name))
	if err == nil {
		err = m.Root.MkdirAll(volumeDir(pod.UID, r.Plugin, v.Name), 0o755)
	}
	if err == nil {
		err = m.fill(ctx, pod, v, bound, r)
	}
	if err == nil {
		err = m.write(pod.UID, v.Name, r)
	}
	if err != nil && bound != nil {
		return &boundError{bound.Name, err}
	}
	return err
}

// boundError is the failure of a volume that messages know by its PersistentVolume's name.
type boundError struct {
	volume string
	error
}

func (e *boundError) Unwrap() error { return e.error }

// nameFor is what messages call a volume.
func nameFor(v *corev1.Volume, err error) string {
	if bound, is := errors.AsType[*boundError](err); is {
		return bound.volume
	}
	return v.Name
}

// fill makes a volume what it is.
func (m *Manager) fill(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, bound *corev1.PersistentVolume, r *record) (err error) {
	dir := volumeDir(pod.UID, r.Plugin, v.Name)
	switch {
	case changing(v):
		r.ReadOnly = true
		return errors.Join(m.Root.Chmod(dir, 0o755), m.freshen(ctx, pod, v))
	case v.EmptyDir != nil:
		r.Medium = v.EmptyDir.Medium
		return m.Root.Chmod(dir, 0o777)
	case v.HostPath != nil:
		r.Path, err = m.hostPath(v.HostPath.Path, v.HostPath.Type)
		return err
	case bound != nil:
		r.Path, err = m.storage(bound)
		return err
	}
	return fmt.Errorf("podfall mounts no volume of this kind: want emptyDir, configMap, secret, downwardAPI, projected, hostPath, " +
		"persistentVolumeClaim or ephemeral")
}

// path is where the files of a mounted volume are on the machine.
func (m *Manager) path(pod *corev1.Pod, volume string, r *record) string {
	if r.Path != "" {
		return r.Path
	}
	return filepath.Join(m.Root.Name(), volumeDir(pod.UID, r.Plugin, volume))
}

// Place is where the files of a mounted volume are below the manager's directory; empty when
// they are elsewhere, and belong to no pod, and when it is not mounted.
func (m *Manager) Place(uid types.UID, volume string) string {
	r, err := m.read(uid, volume)
	if err != nil || r == nil || r.Path != "" {
		return ""
	}
	return volumeDir(uid, r.Plugin, volume)
}

// Device is what was attached to the node for a mounted volume; empty for nothing, and when it
// is not mounted.
func (m *Manager) Device(uid types.UID, volume string) corev1.UniqueVolumeName {
	r, err := m.read(uid, volume)
	if err != nil || r == nil {
		return ""
	}
	return r.Device
}

// Mounted are a pod's mounted volumes, by name.
func (m *Manager) Mounted(uid types.UID) []string { return slices.Sorted(maps.Keys(m.records(uid))) }
