package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
)

// Unmount unmounts all volumes of the pod. It retries until all are unmounted or the wait is over;
// then its error names the rest (KBL-60(2)).
func (m *Manager) Unmount(ctx context.Context, pod *corev1.Pod) error {
	uid := pod.UID
	if err := checkName("metadata.uid", string(uid)); err != nil {
		return err
	}
	waiting, cancel := m.Clock.Timeout(ctx, m.Timing.UnmountWait)
	defer cancel()
	for {
		left, err := m.unmountOnce(waiting, uid)
		if len(left) == 0 {
			m.inUse.Remove(uid) // those too that were never mounted
			return nil
		}
		if m.Clock.Sleep(waiting, m.Timing.UnmountPoll) == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return LeftError(left, err)
	}
}

// unmountOnce tries once to unmount all volumes of the pod, at the same time, so that a hanging
// volume delays no other.
func (m *Manager) unmountOnce(ctx context.Context, uid types.UID) (left []string, last error) {
	records := m.records(uid)
	m.mu.Lock()
	maps.DeleteFunc(records, func(name string, _ *record) bool {
		mounted, known := m.memoryOf(uid).mounted[name]
		return known && !mounted
	})
	m.mu.Unlock()
	names := slices.Sorted(maps.Keys(records))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { errs[i] = m.tearDown(ctx, uid, name, records[name]) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			left, last = append(left, names[i]), err
		}
	}
	return left, last
}

// tearDown unmounts a volume once. A duplicate mount stays on the machine, unknown to the kubelet
// (STK-16).
func (m *Manager) tearDown(ctx context.Context, uid types.UID, name string, r *record) error {
	if err := m.Faults.Inject(ctx, fault.VolumeUnmount, attributesOf(r.Namespace, r.Pod, name)); err != nil {
		return err
	}
	r.Mounts--
	var err error
	if r.Mounts > 0 {
		err = m.writeRecord(uid, name, r)
	} else if err = m.Root.Remove(recordPath(uid, name)); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.memoryOf(uid).mounted[name] = false
	m.mu.Unlock()
	m.inUse.Remove(uid, name)
	return nil
}

// RemoveDirs removes the pod's volume directories. It retries until they are gone or ctx ends
// (KBL-60(3)).
func (m *Manager) RemoveDirs(ctx context.Context, pod *corev1.Pod) error {
	uid := pod.UID
	if err := checkName("metadata.uid", string(uid)); err != nil {
		return err
	}
	m.rememberName(pod)
	for logged := false; ; {
		err := m.removeDirs(ctx, uid)
		if err == nil {
			m.forget(uid)
			return nil
		}
		m.mu.Lock()
		m.memoryOf(uid).removeDirsErr = err
		m.mu.Unlock()
		if !logged {
			m.Log.WarnContext(ctx, "a pod's volume directories stay", "uid", uid, "err", err)
			logged = true
		}
		if err := m.Clock.Sleep(ctx, m.Timing.DirPoll); err != nil {
			return err
		}
	}
}

// RemoveDirsError returns why the pod's directories are not removed yet, or nil.
func (m *Manager) RemoveDirsError(uid types.UID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if memory, ok := m.pods[uid]; ok {
		return memory.removeDirsErr
	}
	return nil
}

func (m *Manager) removeDirs(ctx context.Context, uid types.UID) error {
	m.mu.Lock()
	memory := m.memoryOf(uid)
	about := fault.Attributes{Namespace: memory.namespace, Pod: memory.name}
	m.mu.Unlock()
	if err := m.Faults.Inject(ctx, fault.VolumeRemoveDir, about); err != nil {
		return err
	}
	if left := m.listNames(path.Join(podDir(uid), mountsDir)); len(left) > 0 {
		return fmt.Errorf("volumes are unmounted, and there is another mount: [%s]", strings.Join(left, " "))
	}
	return m.Root.RemoveAll(path.Join(podDir(uid), volumesDir))
}

// RemovePod removes the directory of an unknown pod, unless a volume is still mounted in it
// (KBL-76). It tries once.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	if err := checkName("metadata.uid", string(uid)); err != nil {
		return err
	}
	left, err := m.unmountOnce(ctx, uid)
	if len(left) > 0 {
		return fmt.Errorf("orphaned pod %q found, but error occurred when trying to remove the volumes dir: [%s]: %w",
			uid, strings.Join(left, " "), err)
	}
	if err := m.removeDirs(ctx, uid); err != nil {
		return fmt.Errorf("orphaned pod %q found, but failed to rmdir() volume at path %s: %w",
			uid, path.Join(podDir(uid), volumesDir), err)
	}
	m.forget(uid)
	return m.Root.RemoveAll(podDir(uid))
}

// forget drops the memory of a pod whose volumes are gone.
func (m *Manager) forget(uid types.UID) {
	m.mu.Lock()
	delete(m.pods, uid)
	m.mu.Unlock()
	m.tokens.forget(uid)
	m.inUse.Remove(uid)
}
