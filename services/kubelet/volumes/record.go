package volumes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	podsDir    = "pods"
	volumesDir = "volumes"
	mountsDir  = "mounts"
)

// record says that a volume is mounted. Each record is a file.
type record struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Plugin names the kind of volume as its directory is named.
	Plugin string `json:"plugin"`
	// Path is the directory of the files; empty for the volume's own directory.
	Path string `json:"path,omitempty"`
	// ReadOnly says that no container may write to the volume.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Device is the device attached for the volume, if any.
	Device corev1.UniqueVolumeName `json:"device,omitempty"`
	// Medium is an emptyDir's medium as requested: here all are directories.
	Medium corev1.StorageMedium `json:"medium,omitempty"`
	// Mounts counts the mounts: 1, or more with a driver that is not idempotent.
	Mounts int `json:"mounts"`
}

// checkName refuses names that cannot be one element of a path. Field is named in the error.
func checkName(field, name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 253 || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%s: %q: want a name without slashes", field, name)
	}
	return nil
}

func podDir(uid types.UID) string { return path.Join(podsDir, string(uid)) }

func recordPath(uid types.UID, volume string) string {
	return path.Join(podDir(uid), mountsDir, volume)
}

func volumeDir(uid types.UID, plugin, volume string) string {
	return path.Join(podDir(uid), volumesDir, plugin, volume)
}

// readRecord returns the record of a volume; nil if it is not mounted.
func (m *Manager) readRecord(uid types.UID, volume string) (*record, error) {
	data, err := m.Root.ReadFile(recordPath(uid, volume))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of volume %q: %w", volume, err)
	}
	var r record
	err = json.Unmarshal(data, &r)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of volume %q: %w", volume, err)
	}
	return &r, nil
}

// check refuses a record that would lead outside the volumes' directories.
func (r *record) check() error {
	if r.Path != "" && !path.IsAbs(r.Path) {
		return fmt.Errorf("path: %q: want an absolute one", r.Path)
	}
	return checkName("plugin", r.Plugin)
}

// writeRecord replaces a record atomically.
func (m *Manager) writeRecord(uid types.UID, volume string, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	target := recordPath(uid, volume)
	if err := m.Root.MkdirAll(path.Dir(target), 0o755); err != nil {
		return err
	}
	draft := path.Join(path.Dir(target), "."+volume+".new") // no record: see names
	if err := m.Root.WriteFile(draft, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return m.Root.Rename(draft, target)
}

// records returns all records of a pod, by volume. An unreadable record counts as a mount.
func (m *Manager) records(uid types.UID) map[string]*record {
	found := map[string]*record{}
	for _, name := range m.listNames(path.Join(podDir(uid), mountsDir)) {
		r, err := m.readRecord(uid, name)
		if err != nil {
			r = &record{Mounts: 1}
		}
		if r != nil {
			found[name] = r
		}
	}
	return found
}

// Pods returns the UIDs that have a directory.
func (m *Manager) Pods() []types.UID {
	var uids []types.UID
	for _, name := range m.listNames(podsDir) {
		uids = append(uids, types.UID(name))
	}
	return uids
}

// listNames returns the entries of a directory without drafts. An unreadable directory may not be
// empty: its error is returned as a name.
func (m *Manager) listNames(dir string) []string {
	f, err := m.Root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return []string{err.Error()}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, ".") })
	slices.Sort(names)
	return names
}
