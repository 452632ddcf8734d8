// Package volumes keeps the volumes of a node's pods. An emptyDir is a real directory;
// every mounted volume, of whatever kind, has a directory and a mount record. Nothing
// here follows a path out of the kubelet's own directory. What is on disk:
//
//	pods/<uid>/volumes/<plugin>/<name>/    the volume
//	pods/<uid>/mounts/<name>               the record that it is mounted
//
// Everything is by UID, so a new pod of the same name never meets the old one's files.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
)

const (
	podsDir    = "pods"
	volumesDir = "volumes"
	mountsDir  = "mounts"
)

// Timing is how long a pod's end waits for its volumes.
type Timing struct {
	// UnmountWait is the longest wait for all unmounts before an error.
	UnmountWait time.Duration
	// UnmountPoll is between two attempts to unmount.
	UnmountPoll time.Duration
	// DirPoll is between two looks whether the directories are gone.
	DirPoll time.Duration
}

// Faults can make each step fail or hang; a nil error lets it pass.
type Faults interface {
	Mount(ctx context.Context, uid types.UID, volume string) error
	Unmount(ctx context.Context, uid types.UID, volume string) error
	RemoveDir(ctx context.Context, uid types.UID) error
}

// Config is what a Manager works with.
type Config struct {
	// Root is the kubelet's directory. The caller closes it.
	Root   *os.Root
	Clock  clock.Clock
	Timing Timing
	Faults Faults // nil: none
	Log    *slog.Logger
}

// Manager mounts and unmounts.
type Manager struct{ Config }

// New makes the directory of all pods.
func New(cfg Config) (*Manager, error) {
	if cfg.Faults == nil {
		cfg.Faults = none{}
	}
	if err := cfg.Root.MkdirAll(podsDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the pods' directory: %w", err)
	}
	return &Manager{cfg}, nil
}

// Mount mounts all volumes of the pod; those already mounted stay as they are.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod) error {
	for _, v := range pod.Spec.Volumes {
		if err := m.mount(ctx, pod.UID, v); err != nil {
			return fmt.Errorf("mount volume %q of pod %s/%s: %w", v.Name, pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (m *Manager) mount(ctx context.Context, uid types.UID, v corev1.Volume) error {
	record := path.Join(podsDir, string(uid), mountsDir, v.Name)
	if _, err := m.Root.Lstat(record); err == nil {
		return nil
	}
	if err := m.Faults.Mount(ctx, uid, v.Name); err != nil {
		return err
	}
	if err := m.Root.MkdirAll(path.Join(podsDir, string(uid), volumesDir, plugin(v), v.Name), 0o755); err != nil {
		return err
	}
	if err := m.Root.MkdirAll(path.Dir(record), 0o755); err != nil {
		return err
	}
	return m.Root.WriteFile(record, []byte(plugin(v)+"\n"), 0o644)
}

// Path is where a volume of the pod is on the machine.
func (m *Manager) Path(uid types.UID, v corev1.Volume) string {
	if v.HostPath != nil {
		return v.HostPath.Path
	}
	return filepath.Join(m.Root.Name(), podsDir, string(uid), volumesDir, plugin(v), v.Name)
}

// Unmount unmounts all volumes of the pod, trying again until all are, or until the
// wait is over; its error then names those left (KBL-60(2)).
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
	begun := m.Clock.Now()
	for {
		left, err := m.unmount(ctx, uid)
		if len(left) == 0 {
			return err
		}
		if m.Clock.Since(begun)+m.Timing.UnmountPoll > m.Timing.UnmountWait {
			return fmt.Errorf("mounted volumes=[%s]: %w", strings.Join(left, " "), err)
		}
		if err := m.Clock.Sleep(ctx, m.Timing.UnmountPoll); err != nil {
			return err
		}
	}
}

func (m *Manager) unmount(ctx context.Context, uid types.UID) (left []string, last error) {
	dir := path.Join(podsDir, string(uid), mountsDir)
	for _, name := range m.names(dir) {
		err := m.Faults.Unmount(ctx, uid, name)
		if err == nil {
			err = m.Root.Remove(path.Join(dir, name))
		}
		if err != nil {
			left, last = append(left, name), err
		}
	}
	return left, last
}

// RemoveDirs removes the pod's volume directories, trying until they are gone or ctx
// ends (KBL-60(3)).
func (m *Manager) RemoveDirs(ctx context.Context, uid types.UID) error {
	for logged := false; ; {
		err := m.removeDirs(ctx, uid)
		if err == nil {
			return nil
		}
		if !logged {
			m.Log.WarnContext(ctx, "a pod's volume directories stay", "uid", uid, "err", err)
			logged = true
		}
		if err := m.Clock.Sleep(ctx, m.Timing.DirPoll); err != nil {
			return err
		}
	}
}

func (m *Manager) removeDirs(ctx context.Context, uid types.UID) error {
	if err := m.Faults.RemoveDir(ctx, uid); err != nil {
		return err
	}
	if left := m.names(path.Join(podsDir, string(uid), mountsDir)); len(left) > 0 {
		return fmt.Errorf("volumes are mounted: [%s]", strings.Join(left, " "))
	}
	return m.Root.RemoveAll(path.Join(podsDir, string(uid), volumesDir))
}

// Pods are the UIDs that have a directory.
func (m *Manager) Pods() []types.UID {
	var uids []types.UID
	for _, name := range m.names(podsDir) {
		uids = append(uids, types.UID(name))
	}
	return uids
}

// RemovePod removes the directory of a pod that nobody knows any more, unless a volume
// is still mounted in it (KBL-76). It tries once.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	left, err := m.unmount(ctx, uid)
	if len(left) > 0 {
		return fmt.Errorf("orphaned pod %q found, but error occurred when trying to remove the volumes dir: [%s]: %w",
			uid, strings.Join(left, " "), err)
	}
	if err := m.removeDirs(ctx, uid); err != nil {
		return fmt.Errorf("orphaned pod %q found, but failed to rmdir() volume at path %s: %w",
			uid, path.Join(podsDir, string(uid), volumesDir), err)
	}
	return m.Root.RemoveAll(path.Join(podsDir, string(uid)))
}

func (m *Manager) names(dir string) []string {
	f, err := m.Root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []string{err.Error()} // what cannot be read is not known to be unmounted
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return []string{err.Error()}
	}
	slices.Sort(names)
	return names
}

// plugin is the directory name of a volume's kind, as upstream names it.
func plugin(v corev1.Volume) string {
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
	case v.Projected != nil:
		kind = "projected"
	case v.PersistentVolumeClaim != nil:
		kind = "csi"
	}
	return "kubernetes.io~" + kind
}

type none struct{}

func (none) Mount(context.Context, types.UID, string) error   { return nil }
func (none) Unmount(context.Context, types.UID, string) error { return nil }
func (none) RemoveDir(context.Context, types.UID) error       { return nil }
