package podworker

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/task"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// Runtime is the part of CRI that a worker needs.
type Runtime interface {
	Outside
	Inside
}

// Outside is the part of CRI that changes something.
type Outside interface {
	RunPodSandbox(ctx context.Context, request *proto.RunPodSandboxRequest) (*proto.Sandbox, error)
	StopPodSandbox(ctx context.Context, id string) error
	RemovePodSandbox(ctx context.Context, id string) error
	CreateContainer(ctx context.Context, request *proto.CreateContainerRequest) (id string, err error)
	StartContainer(ctx context.Context, id string) error
	StopContainer(ctx context.Context, id string, timeoutSeconds int64) error
	RemoveContainer(ctx context.Context, id string) error
}

// Cache is what is known of the runtime.
type Cache interface {
	NewerThan(ctx context.Context, uid types.UID, than time.Time) (podstate.Pod, error)
	Read(ctx context.Context, uid types.UID, known []*proto.Sandbox) (podstate.Pod, error)
	Last(uid types.UID) (pod podstate.Pod, listed bool)
	Forget(uid types.UID)
}

// Status takes the pods' statuses; it never blocks.
type Status interface {
	Report(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) corev1.PodStatus
	// Derive is what Report would report.
	Derive(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) corev1.PodStatus
	SandboxReady(pod *corev1.Pod)
	Finish(pod *corev1.Pod)
}

// Probes asks containers how they are; it never blocks.
type Probes interface {
	Watch(pod *corev1.Pod)
	Forget(uid types.UID)
	Container(uid types.UID, name, id string) probes.State
}

// Volumes mounts and unmounts, and says what of it a container sees.
type Volumes interface {
	// Mount tries once, and returns a *volumes.NotReadyError when something lacks.
	Mount(ctx context.Context, pod *corev1.Pod) error
	Unmount(ctx context.Context, pod *corev1.Pod) error
	RemoveDirs(ctx context.Context, pod *corev1.Pod) error
	Mounts(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, subPaths []string) ([]*proto.Mount, error)
	EnvFile(pod *corev1.Pod, ref *corev1.FileKeySelector) (string, error)
}

// Images sees to it that containers' images are on the node.
type Images interface {
	// Ensure returns when the image is there, or a *pulls.Error.
	Ensure(ctx context.Context, pod *corev1.Pod, spec *corev1.Container) error
	Forget(uid types.UID)
}

// Objects are the copies of what pods refer to.
type Objects interface {
	Register(ctx context.Context, pod *corev1.Pod)
	Forget(uid types.UID)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	Services(ctx context.Context, namespace string) ([]*corev1.Service, error)
	RuntimeHandler(ctx context.Context, pod *corev1.Pod) (string, error)
}

// Cgroups keeps the pods' cgroups.
type Cgroups interface {
	Create(pod *corev1.Pod) error
	Destroy(ctx context.Context, uid types.UID) error
}

// Claims are what dynamic resources pods hold of the node.
type Claims interface {
	Unprepare(ctx context.Context, pod *corev1.Pod) error
}

// Events tells people; it never blocks.
type Events interface {
	Event(about kinds.Object, kind, reason, message string)
	ContainerEvent(pod *corev1.Pod, container, kind, reason, message string)
}

// Timing is how workers pace themselves.
type Timing struct {
	// AwaitRelist makes each run wait for a listing of the runtime newer than the last
	// run (KBL-20). Without it a run begins at once from what is known, and a started
	// pod's status is reported without waiting to be noticed: the status between
	// scheduled and started is then not reported at all.
	AwaitRelist bool
	// Backoff is before a retry, Resync between two runs of a pod that does well; both
	// are lengthened by up to Jitter of themselves.
	Backoff, Resync time.Duration
	Jitter          float64
	// Crash holds back restarts of containers.
	Crash CrashTiming
	// KillWait is the least that Kill waits (KBL-23).
	KillWait time.Duration
}

// Config is what workers work with.
type Config struct {
	Runtime Runtime
	Cache   Cache
	Status  Status
	Probes  Probes
	Host
	Events Events
	Driver
	Timing Timing
	Compat proto.Compat
	Log    *slog.Logger
	Seed   uint64
}

// Driver is what workers run on.
type Driver struct {
	Clock task.Clock
	// Tasks are goroutines if it is nil.
	Tasks   task.Scheduler
	History History
}

// History records what workers do. *history.Recorder is one.
type History interface {
	Now() history.MonoTime
	Record(cause string, fact history.Fact)
	RecordSince(began history.MonoTime, cause string, fact history.Fact)
}

// Host is what pods stand on.
type Host struct {
	Images  Images
	Volumes Volumes
	Cgroups Cgroups
	Claims  Claims
	Objects Objects
	// IP is the node's address.
	IP string
	// Allocatable is what a container has whose limits say nothing.
	Allocatable corev1.ResourceList
}

// Workers are a node's pod workers by UID.
//
// # Order
//
// Events of one UID are stepped in the order in which they are told, at once; what a
// machine wants is carried out in order, one action at a time.
//
// # Blocking
//
// Nothing but Kill and Run waits, so one stuck pod blocks no other (KBL-06).
type Workers struct {
	cfg Config

	mu      sync.Mutex
	workers map[types.UID]*worker
	closed  bool
	group   task.Group
}

// NewWorkers has none yet.
func NewWorkers(cfg Config) *Workers {
	cfg.Tasks = task.OrGoroutines(cfg.Tasks)
	return &Workers{cfg: cfg, workers: map[types.UID]*worker{}, group: cfg.Tasks.Group()}
}

// Run waits until ctx ends and then for what is being carried out. It stops no pod: the
// kubelet leaves, and the containers live on.
func (s *Workers) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.group.Wait()
	return ctx.Err()
}

// Tell steps the UID's machine. Only Seen and Orphan make a new worker; anything else
// about an unknown UID is ignored.
func (s *Workers) Tell(ctx context.Context, uid types.UID, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	w := s.workers[uid]
	if w == nil {
		switch e.(type) {
		case Seen, Orphan:
		default:
			return
		}
		w = newWorker(s.cfg, s.group)
		s.workers[uid] = w
	}
	if w.tell(e) {
		s.group.Go(func() { w.work(ctx) })
	}
}

// Due tells every worker whose retry or resync is due.
func (s *Workers) Due(ctx context.Context) {
	now := s.cfg.Clock.Steady()
	for _, uid := range s.uids() {
		s.mu.Lock()
		w := s.workers[uid]
		s.mu.Unlock()
		if w != nil && w.isDue(now) {
			s.Tell(ctx, uid, Due{})
		}
	}
}

func (w *worker) isDue(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.due.IsZero() || now.Before(w.due) {
		return false
	}
	w.due = time.Time{}
	return true
}

// NextDue is when the first retry or resync is due; zero for never.
func (s *Workers) NextDue() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for _, w := range s.workers { // the earliest does not depend on the order
		w.mu.Lock()
		if !w.due.IsZero() && (first.IsZero() || w.due.Before(first)) {
			first = w.due
		}
		w.mu.Unlock()
	}
	return first
}

// Kill ends a pod for a reason of the node's and waits until its containers have
// stopped, but no longer than one and a half times the grace (KBL-23). The worker goes
// on in any case, until ctx ends: it is that of the kubelet.
func (s *Workers) Kill(ctx context.Context, uid types.UID, kill Kill) error {
	s.Tell(ctx, uid, kill)
	s.mu.Lock()
	w := s.workers[uid]
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	pod, grace := w.machine.Pod(), w.machine.Grace()
	w.mu.Unlock()
	limited, cancel := s.cfg.Clock.Timeout(ctx, max(time.Duration(grace)*time.Second*3/2, s.cfg.Timing.KillWait))
	defer cancel()
	switch err := s.cfg.Tasks.Wait(limited, w.stopped); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	s.cfg.Events.Event(pod, corev1.EventTypeWarning, "ExceededGracePeriod",
		"Container runtime did not kill the pod within specified grace period.")
	return errors.New("timeout waiting to kill pod")
}

// View is one worker as others see it.
type View struct {
	UID     types.UID
	State   State
	Pod     *corev1.Pod
	Removed bool
	Restart bool
	// Cause is why the node itself ends it; nil for other ends.
	Cause *Cause
	progress
}

// All are the workers, by UID.
func (s *Workers) All() []View {
	var views []View
	for _, uid := range s.uids() {
		if v, ok := s.Get(uid); ok {
			views = append(views, v)
		}
	}
	return views
}

// Get is the UID's worker, if it has one.
func (s *Workers) Get(uid types.UID) (View, bool) {
	s.mu.Lock()
	w := s.workers[uid]
	s.mu.Unlock()
	if w == nil {
		return View{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machine
	return View{UID: uid, State: m.State(), Pod: m.Pod(), Removed: m.Removed(), Restart: m.Restart(), Cause: m.Cause(), progress: w.progress}, true
}

// Forget lets a finished worker go, and removes what is left of its pod in the runtime.
func (s *Workers) Forget(ctx context.Context, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[uid]
	if w == nil || s.closed {
		return
	}
	w.tell(Forget{})
	w.mu.Lock()
	state := w.machine.State()
	w.mu.Unlock()
	if state != Gone { // only Forget leads there, and only this calls it
		return
	}
	delete(s.workers, uid)
	s.cfg.History.Record("", history.KubeletForget{UID: string(uid)})
	s.cfg.Probes.Forget(uid)
	s.cfg.Images.Forget(uid)
	s.group.Go(func() { w.leave(ctx, uid) })
}

// leave removes the pod's dead sandboxes, which take their containers along.
func (w *worker) leave(ctx context.Context, uid types.UID) {
	if seen, _ := w.cfg.Cache.Last(uid); len(seen.Containers)+len(seen.Sandboxes) > 0 {
		seen.Containers = slices.DeleteFunc(slices.Clone(seen.Containers), func(c *proto.Container) bool {
			return slices.ContainsFunc(seen.Sandboxes, func(s *proto.Sandbox) bool { return s.GetId() == c.GetSandboxId() })
		})
		if err := w.purge(ctx, seen); err != nil && ctx.Err() == nil {
			w.cfg.Log.WarnContext(ctx, "remove a finished pod from the runtime", "uid", uid, "err", err)
			return
		}
	}
	w.cfg.Cache.Forget(uid)
}

func (s *Workers) uids() []types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.workers))
}

// fraction is a number from 0 to 1 that the seed, the pod and the count decide.
func fraction(seed uint64, uid types.UID, n uint64) float64 {
	h := fnv.New64a()
	var buf [16]byte
	for i := range 8 {
		buf[i], buf[8+i] = byte(seed>>(8*i)), byte(n>>(8*i))
	}
	h.Write(buf[:])
	h.Write([]byte(uid))
	return float64(h.Sum64()>>11) / (1 << 53)
}
