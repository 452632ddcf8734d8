// Package cgroup keeps a record file for each pod's cgroup, so that a pod's end has
// something to destroy and to fail at (KBL-60(5)). It limits nothing.
//
//	cgroups/<uid>    the pod's namespace and name
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
)

const dir = "cgroups"

// Manager creates and destroys records under Root.
type Manager struct {
	root   *os.Root
	faults *fault.Table
}

// New creates the directory of all records. Before a cgroup is destroyed the fault cgroup.destroy
// is injected: a process that does not exit.
func New(root *os.Root, faults *fault.Table) (*Manager, error) {
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cgroups' directory: %w", err)
	}
	return &Manager{root, faults}, nil
}

// Create records the pod's cgroup.
func (m *Manager) Create(pod *corev1.Pod) error {
	name := path.Join(dir, string(pod.UID))
	f, err := m.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create cgroup of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = fmt.Fprintf(f, "pod %s/%s\n", pod.Namespace, pod.Name)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("create cgroup of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Destroy removes the record; a missing record counts as destroyed.
func (m *Manager) Destroy(ctx context.Context, uid types.UID) error {
	name := path.Join(dir, string(uid))
	if err := m.faults.Inject(ctx, fault.CgroupDestroy, m.attributesOf(name)); err != nil {
		return fmt.Errorf("destroy cgroup of pod %s: %w", uid, err)
	}
	if err := m.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("destroy cgroup of pod %s: %w", uid, err)
	}
	return nil
}

// attributesOf returns the pod of a record.
func (m *Manager) attributesOf(record string) fault.Attributes {
	data, err := m.root.ReadFile(record)
	if err != nil {
		return fault.Attributes{}
	}
	namespace, name, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(data)), "pod "), "/")
	return fault.Attributes{Namespace: namespace, Pod: name}
}

// Pods returns the UIDs that have a record.
func (m *Manager) Pods() ([]types.UID, error) {
	f, err := m.root.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	slices.Sort(names)
	uids := make([]types.UID, 0, len(names))
	for _, name := range names {
		uids = append(uids, types.UID(name))
	}
	return uids, nil
}
