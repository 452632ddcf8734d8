package volumes

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Devices are the attachable volumes that pods of the node use, or are about to. A
// volume is mounted only when the node has said so in its status, and is no longer said
// to be used only when it is unmounted. It is safe for concurrent use.
type Devices struct {
	mu    sync.Mutex
	known map[corev1.UniqueVolumeName]*device
	wake  chan struct{}
}

type device struct {
	users    map[use]bool
	reported bool
}

// use is a volume of a pod.
type use struct {
	uid    types.UID
	volume string
}

// NewDevices are none.
func NewDevices() *Devices {
	return &Devices{known: map[corev1.UniqueVolumeName]*device{}, wake: make(chan struct{}, 1)}
}

// Add notes that a pod uses a device as one of its volumes; reported says whether the node's
// status has it.
func (d *Devices) Add(name corev1.UniqueVolumeName, uid types.UID, volume string) (reported bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	by := use{uid, volume}
	if d.known[name] == nil {
		d.known[name] = &device{users: map[use]bool{}}
		d.signal()
	}
	d.known[name].users[by] = true
	return d.known[name].reported
}

// Remove drops all uses of a pod, or those of one volume of it.
func (d *Devices) Remove(uid types.UID, volumes ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, known := range d.known {
		maps.DeleteFunc(known.users, func(by use, _ bool) bool {
			return by.uid == uid && (len(volumes) == 0 || slices.Contains(volumes, by.volume))
		})
		if len(known.users) == 0 {
			delete(d.known, name)
			d.signal()
		}
	}
}

func (d *Devices) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// InUse are the attachable volumes that the node uses, for its status.
func (d *Devices) InUse() []corev1.UniqueVolumeName {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.known))
}

// InUseChanges is readable when InUse differs from what it was.
func (d *Devices) InUseChanges() <-chan struct{} { return d.wake }

// Reported says that the API has names in the node's status: they may be mounted.
func (d *Devices) Reported(names []corev1.UniqueVolumeName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, known := range d.known {
		known.reported = slices.Contains(names, name)
	}
}

// InUse are the attachable volumes that the node uses, for its status.
func (m *Manager) InUse() []corev1.UniqueVolumeName { return m.inUse.InUse() }

// InUseChanges is readable when InUse differs from what it was.
func (m *Manager) InUseChanges() <-chan struct{} { return m.inUse.InUseChanges() }

// Reported says that the API has names in the node's status: they may be mounted.
func (m *Manager) Reported(names []corev1.UniqueVolumeName) { m.inUse.Reported(names) }
