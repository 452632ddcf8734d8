package volumes

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Devices are the attachable volumes that pods of the node use or will use. A volume is mounted
// only after the node's status lists it, and leaves the status only after it is unmounted. Devices
// is safe for concurrent use.
type Devices struct {
	mu    sync.Mutex
	known map[corev1.UniqueVolumeName]*device
	wake  chan struct{}
}

type device struct {
	users    map[use]bool
	reported bool
}

// use is one volume of one pod.
type use struct {
	uid    types.UID
	volume string
}

// NewDevices returns no devices.
func NewDevices() *Devices {
	return &Devices{known: map[corev1.UniqueVolumeName]*device{}, wake: make(chan struct{}, 1)}
}

// Add records that a pod uses a device as one of its volumes. Reported says whether the node's
// status lists it.
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

// InUse returns the attachable volumes in use, for the node's status.
func (d *Devices) InUse() []corev1.UniqueVolumeName {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.known))
}

// InUseChanges is readable when InUse has changed.
func (d *Devices) InUseChanges() <-chan struct{} { return d.wake }

// Reported records that the API has names in the node's status: they may be mounted.
func (d *Devices) Reported(names []corev1.UniqueVolumeName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, known := range d.known {
		known.reported = slices.Contains(names, name)
	}
}

// InUse returns the attachable volumes in use, for the node's status.
func (m *Manager) InUse() []corev1.UniqueVolumeName { return m.inUse.InUse() }

// InUseChanges is readable when InUse has changed.
func (m *Manager) InUseChanges() <-chan struct{} { return m.inUse.InUseChanges() }

// Reported records that the API has names in the node's status: they may be mounted.
func (m *Manager) Reported(names []corev1.UniqueVolumeName) { m.inUse.Reported(names) }
