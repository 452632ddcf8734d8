// Package volumes keeps the volumes of a node's pods: real directories with real files,
// and a record of each mount. What is on disk:
//
//	pods/<uid>/volumes/<plugin>/<name>/    the volume, as kubelets lay it out
//	pods/<uid>/mounts/<name>               the record that it is mounted
//
// Everything is by UID, so a new pod of the same name never meets the old one's files. A
// record is written when its volume is ready and removed when it is unmounted, each in
// one step, so that a kubelet that was killed finds what there is.
//
//	volumes.go             mounts what a pod lacks, and freshens what may change
//	retry.go               when a mount that failed is tried again, and what is still missing
//	setup.go               what to mount a volume means, for each kind
//	payload.go, atomic.go  files made of objects, and how they change all at once
//	claim.go, inuse.go     claims, attachments, and what the node says it uses
//	hostpath.go            the machine's own directories, where they are allowed
//	container.go           what of it a container sees: subPaths
//	unmount.go             the end
//
// No path that is made of somebody's words is followed out of the directory that it
// belongs to: os.Root sees to that, and names are checked first.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Timing is how long a pod waits for its volumes, at both ends.
type Timing struct {
	// MountWait is the longest that one attempt may take.
	MountWait time.Duration
	// RetryFirst, doubled to RetryMost, is between two attempts to mount a volume.
	RetryFirst, RetryMost time.Duration
	// AttachPoll is between two looks whether a volume is attached.
	AttachPoll time.Duration
	// UnmountWait is the longest wait for all unmounts before an error.
	UnmountWait time.Duration
	// UnmountPoll is between two attempts to unmount.
	UnmountPoll time.Duration
	// DirPoll is between two looks whether the directories are gone.
	DirPoll time.Duration
}

// API is what volumes ask of the apiserver.
type API interface {
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
}

// Objects are the copies of what pods refer to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Events tells people; it never blocks.
type Events interface {
	Event(about kinds.Object, kind, reason, message string)
}

// Config is what a Manager works with.
type Config struct {
	// Root is the kubelet's directory. The caller closes it.
	Root *os.Root
	// Storage holds the persistent volumes of the cluster, which all nodes share. The
	// caller closes it.
	Storage *os.Root
	// HostPaths is the directory of the machine inside which hostPath volumes may be;
	// nil allows none. The caller closes it.
	HostPaths *os.Root
	Node      string
	// Allocatable is what the node gives containers that have no limit.
	Allocatable corev1.ResourceList
	API         API
	Objects     Objects
	Events      Events
	Clock       clock.Clock
	Timing      Timing
	// Faults break the points volume.*; nil breaks nothing.
	Faults *fault.Table
	Log    *slog.Logger
}

// Manager mounts and unmounts. It is safe for concurrent use, but one pod is mounted or
// unmounted by one at a time.
type Manager struct {
	Config
	kinds  table
	inUse  *Devices
	tokens tokens

	mu   sync.Mutex
	pods map[types.UID]*podMemory
}

// podMemory is what this life of the kubelet knows of a pod's volumes.
type podMemory struct {
	namespace, name string
	// mounted are the volumes that this kubelet holds to be mounted; false says that it
	// has unmounted them.
	mounted map[string]bool
	// attempts are of the volumes that could not be mounted or freshened.
	attempts map[string]Attempt
	// stays is why the pod's directories could not be removed when that was last tried.
	stays error
}

// New makes the directory of all pods, and finds what an earlier kubelet has mounted.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Root.MkdirAll(podsDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the pods' directory: %w", err)
	}
	m := &Manager{Config: cfg, inUse: NewDevices(), tokens: newTokens(), pods: map[types.UID]*podMemory{}}
	var err error
	if m.kinds, err = loadTable(); err != nil {
		return nil, err
	}
	for _, uid := range m.Pods() {
		for name, mounted := range m.records(uid) {
			memory := m.memory(uid)
			memory.namespace, memory.name = mounted.Namespace, mounted.Pod
			if mounted.Device != "" {
				m.inUse.Add(mounted.Device, uid, name)
			}
		}
	}
	return m, nil
}

// memory is what is known of the pod. The caller holds the lock, or is New.
func (m *Manager) memory(uid types.UID) *podMemory {
	known := m.pods[uid]
	if known == nil {
		known = &podMemory{mounted: map[string]bool{}, attempts: map[string]Attempt{}}
		m.pods[uid] = known
	}
	return known
}

// meet remembers what a pod is called.
func (m *Manager) meet(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := m.memory(pod.UID)
	memory.namespace, memory.name = pod.Namespace, pod.Name
}

// Mount mounts all volumes of the pod that are not, and brings the files of the others up
// to date. It tries each once, all at the same time, and not before its turn after a
// failure: a *NotReadyError says which are missing, and when to come again. To fail to freshen
// what is mounted holds nothing up.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	if err := segment("metadata.uid", string(pod.UID)); err != nil {
		return err
	}
	m.meet(pod)
	ctx, cancel := m.Clock.Timeout(ctx, m.Timing.MountWait)
	defer cancel()
	errs := make([]error, len(pod.Spec.Volumes))
	var all sync.WaitGroup
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if m.settled(pod.UID, volume) {
			continue
		}
		all.Go(func() { errs[i] = m.mount(ctx, pod, volume) })
	}
	all.Wait()
	return m.summary(pod, errs)
}

// settled reports whether a volume is mounted for good.
func (m *Manager) settled(uid types.UID, volume *corev1.Volume) bool {
	if changing(volume) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memory(uid).mounted[volume.Name]
}

// summary is what a pod still lacks.
func (m *Manager) summary(pod *corev1.Pod, errs []error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if missing := Lacking(pod, errs, m.memory(pod.UID).attempts, m.Clock.Steady()); missing != nil {
		return missing
	}
	return nil
}

// mount mounts or freshens one volume.
func (m *Manager) mount(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	if err := segment("spec.volumes.name", volume.Name); err != nil {
		return err
	}
	present, err := m.read(pod.UID, volume.Name)
	if err != nil {
		return err
	}
	if present != nil {
		if err := m.reconstruct(pod, volume, present); err != nil {
			return err
		}
	}
	m.mu.Lock()
	last := m.memory(pod.UID).attempts[volume.Name]
	m.mu.Unlock()
	if m.Clock.Steady().Before(last.Next) {
		if present != nil {
			return nil
		}
		return last.Err
	}
	if present != nil {
		err = m.freshen(ctx, pod, volume)
	} else {
		err = m.setUp(ctx, pod, volume)
	}
	m.note(ctx, pod, volume, err)
	if present != nil {
		return nil
	}
	return err
}

// reconstruct takes over a mount that an earlier life of the kubelet has left. Here a
// driver that is not idempotent mounts it once more (STK-16).
func (m *Manager) reconstruct(pod *corev1.Pod, volume *corev1.Volume, present *record) error {
	m.mu.Lock()
	memory := m.memory(pod.UID)
	known := memory.mounted[volume.Name]
	memory.mounted[volume.Name] = true
	m.mu.Unlock()
	if known {
		return nil
	}
	if _, again := m.Faults.FindEffect(fault.VolumeMount, about(pod.Namespace, pod.Name, volume.Name), fault.Duplicate); !again {
		return nil
	}
	present.Mounts++
	return m.write(pod.UID, volume.Name, present)
}

// note remembers a failure and says it, or forgets those before.
func (m *Manager) note(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, err error) {
	m.mu.Lock()
	memory := m.memory(pod.UID)
	if err == nil {
		memory.mounted[volume.Name] = true
		delete(memory.attempts, volume.Name)
		m.mu.Unlock()
		return
	}
	memory.attempts[volume.Name] = memory.attempts[volume.Name].Failed(err, m.Clock.Steady(), m.Timing)
	m.mu.Unlock()
	if errors.Is(err, errUnattached) || ctx.Err() != nil {
		return // the controller says why; a pod that is being stopped needs no volumes
	}
	message := fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", nameFor(volume, err), err)
	if unprocessed, is := errors.AsType[*unprocessedError](err); is {
		message = fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%s]: %v",
			volume.Name, volume.Name, unprocessed)
	}
	m.Events.Event(pod, corev1.EventTypeWarning, "FailedMount", message)
}

// about is what a fault is asked with.
func about(namespace, pod, volume string) fault.Attributes {
	return fault.Attributes{Namespace: namespace, Pod: pod, Volume: volume}
}
