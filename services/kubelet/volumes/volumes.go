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

// Timing holds the intervals of mounting and unmounting.
type Timing struct {
	// MountWait is the longest time of one attempt.
	MountWait time.Duration
	// RetryFirst, doubled up to RetryMost, is the time between two attempts to mount a volume.
	RetryFirst, RetryMax time.Duration
	// AttachPoll is the interval of checks whether a volume is attached.
	AttachPoll time.Duration
	// UnmountWait is the longest wait for all unmounts before an error.
	UnmountWait time.Duration
	// UnmountPoll is the interval of attempts to unmount.
	UnmountPoll time.Duration
	// DirPoll is the interval of checks whether the directories are gone.
	DirPoll time.Duration
}

// API is the part of the apiserver that volumes use.
type API interface {
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
}

// Objects are copies of the objects that pods refer to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
}

// Events sends events to users; it never blocks.
type Events interface {
	Event(about kinds.Object, kind, reason, message string)
}

// Config holds what a Manager uses.
type Config struct {
	// Root is the kubelet's directory. The caller closes it.
	Root *os.Root
	// Storage holds the persistent volumes of the cluster, shared by all nodes. The caller closes
	// it.
	Storage *os.Root
	// HostPaths is the directory of the machine that contains all hostPath volumes; nil allows
	// none. The caller closes it.
	HostPaths *os.Root
	Node      string
	// Allocatable is the limit of containers that set none.
	Allocatable corev1.ResourceList
	API         API
	Objects     Objects
	Events      Events
	Clock       clock.Clock
	Timing      Timing
	// Faults holds the fault points volume.*; nil injects nothing.
	Faults *fault.Table
	Log    *slog.Logger
}

// Manager mounts and unmounts. It is safe for concurrent use, but each pod is mounted or unmounted
// by one caller at a time.
type Manager struct {
	Config
	kinds  kindTable
	inUse  *Devices
	tokens tokens

	mu   sync.Mutex
	pods map[types.UID]*podMemory
}

// podMemory is what this run of the kubelet knows of a pod's volumes.
type podMemory struct {
	namespace, name string
	// mounted are the volumes that this kubelet believes mounted; false says that it has unmounted
	// them.
	mounted map[string]bool
	// attempts are the failures to mount or refresh volumes.
	attempts map[string]Attempt
	// removeDirsErr is why the last removal of the pod's directories failed.
	removeDirsErr error
}

// New creates the directory of all pods, and finds what an earlier kubelet has mounted.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Root.MkdirAll(podsDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the pods' directory: %w", err)
	}
	m := &Manager{Config: cfg, inUse: NewDevices(), tokens: newTokens(), pods: map[types.UID]*podMemory{}}
	var err error
	if m.kinds, err = loadKinds(); err != nil {
		return nil, err
	}
	for _, uid := range m.Pods() {
		for name, mounted := range m.records(uid) {
			memory := m.memoryOf(uid)
			memory.namespace, memory.name = mounted.Namespace, mounted.Pod
			if mounted.Device != "" {
				m.inUse.Add(mounted.Device, uid, name)
			}
		}
	}
	return m, nil
}

// memoryOf returns what is known of the pod. The caller holds the lock, or is New.
func (m *Manager) memoryOf(uid types.UID) *podMemory {
	known := m.pods[uid]
	if known == nil {
		known = &podMemory{mounted: map[string]bool{}, attempts: map[string]Attempt{}}
		m.pods[uid] = known
	}
	return known
}

// rememberName remembers the name of a pod.
func (m *Manager) rememberName(pod *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := m.memoryOf(pod.UID)
	memory.namespace, memory.name = pod.Namespace, pod.Name
}

// Mount mounts the missing volumes of the pod, and refreshes the files of the others. It tries each
// once, all at the same time, and not during a back-off. A *NotReadyError says which are missing,
// and when to retry. A failure to refresh a mounted volume delays nothing.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	if err := checkName("metadata.uid", string(pod.UID)); err != nil {
		return err
	}
	m.rememberName(pod)
	ctx, cancel := m.Clock.Timeout(ctx, m.Timing.MountWait)
	defer cancel()
	errs := make([]error, len(pod.Spec.Volumes))
	var all sync.WaitGroup
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if m.isMounted(pod.UID, volume) {
			continue
		}
		all.Go(func() { errs[i] = m.mountOne(ctx, pod, volume) })
	}
	all.Wait()
	return m.missingVolumes(pod, errs)
}

// isMounted reports whether a volume is mounted and never changes.
func (m *Manager) isMounted(uid types.UID, volume *corev1.Volume) bool {
	if isMadeOfObjects(volume) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memoryOf(uid).mounted[volume.Name]
}

// missingVolumes returns a *NotReadyError if the pod lacks volumes, else nil.
func (m *Manager) missingVolumes(pod *corev1.Pod, errs []error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if missing := FindMissing(pod, errs, m.memoryOf(pod.UID).attempts, m.Clock.Steady()); missing != nil {
		return missing
	}
	return nil
}

// mountOne mounts or refreshes one volume.
func (m *Manager) mountOne(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	if err := checkName("spec.volumes.name", volume.Name); err != nil {
		return err
	}
	present, err := m.readRecord(pod.UID, volume.Name)
	if err != nil {
		return err
	}
	if present != nil {
		if err := m.reconstruct(pod, volume, present); err != nil {
			return err
		}
	}
	m.mu.Lock()
	last := m.memoryOf(pod.UID).attempts[volume.Name]
	m.mu.Unlock()
	if m.Clock.Steady().Before(last.Next) {
		if present != nil {
			return nil
		}
		return last.Err
	}
	if present != nil {
		err = m.refresh(ctx, pod, volume)
	} else {
		err = m.setUp(ctx, pod, volume)
	}
	m.recordResult(ctx, pod, volume, err)
	if present != nil {
		return nil
	}
	return err
}

// reconstruct takes over a mount of an earlier run of the kubelet. Here a driver that is not
// idempotent mounts it a second time (STK-16).
func (m *Manager) reconstruct(pod *corev1.Pod, volume *corev1.Volume, present *record) error {
	m.mu.Lock()
	memory := m.memoryOf(pod.UID)
	known := memory.mounted[volume.Name]
	memory.mounted[volume.Name] = true
	m.mu.Unlock()
	if known {
		return nil
	}
	if _, again := m.Faults.FindEffect(fault.VolumeMount, attributesOf(pod.Namespace, pod.Name, volume.Name), fault.Duplicate); !again {
		return nil
	}
	present.Mounts++
	return m.writeRecord(pod.UID, volume.Name, present)
}

// recordResult remembers a failure and reports it by an event; a success clears earlier failures.
func (m *Manager) recordResult(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, err error) {
	m.mu.Lock()
	memory := m.memoryOf(pod.UID)
	if err == nil {
		memory.mounted[volume.Name] = true
		delete(memory.attempts, volume.Name)
		m.mu.Unlock()
		return
	}
	memory.attempts[volume.Name] = memory.attempts[volume.Name].AfterFailure(err, m.Clock.Steady(), m.Timing)
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

// attributesOf returns the attributes of a volume for faults.
func attributesOf(namespace, pod, volume string) fault.Attributes {
	return fault.Attributes{Namespace: namespace, Pod: pod, Volume: volume}
}
