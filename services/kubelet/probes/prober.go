package probes

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/task"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Runtime is the part of CRI that probes use.
type Runtime interface {
	ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
}

// Cache is the known state of the runtime.
type Cache interface {
	Last(uid types.UID) (pod podstate.Pod, listed bool)
}

// Events sends events to users; it never blocks.
type Events interface {
	ContainerEvent(pod *corev1.Pod, container, kind, reason, message string)
}

// Config holds what probes use.
type Config struct {
	Runtime Runtime
	Cache   Cache
	Events  Events
	// Clock defaults to the wall clock, Tasks to goroutines.
	Clock task.Clock
	Tasks task.Scheduler
	Log   *slog.Logger
}

// Prober runs the probes of a node's pods, each in a task.
//
// # Blocking
//
// Only Run waits.
type Prober struct {
	cfg Config

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // Run's: probes begin and end while it lasts
	pods    map[types.UID]*pod
	running task.Group
	changed map[types.UID]bool
	wake    chan struct{}
}

// pod is one pod that is probed.
type pod struct {
	object *corev1.Pod
	probes map[key]*probe
}

type key struct {
	container string
	kind      Kind
}

// probe is one probe of one container, guarded by the prober's lock.
type probe struct {
	tracker Tracker
	stop    context.CancelFunc
	// nudge brings the next tick forward.
	nudge chan struct{}
}

// New returns a prober that runs nothing yet.
func New(cfg Config) *Prober {
	if cfg.Clock == nil {
		cfg.Clock = clock.Clock{}
	}
	cfg.Tasks = task.OrGoroutines(cfg.Tasks)
	return &Prober{
		cfg: cfg, pods: map[types.UID]*pod{}, changed: map[types.UID]bool{}, wake: make(chan struct{}, 1), running: cfg.Tasks.Group(),
	}
}

// Changes has a token when the result of a probe has changed; see Take.
func (p *Prober) Changes() <-chan struct{} { return p.wake }

// Take returns the pods of which a probe's result has changed since the last Take.
func (p *Prober) Take() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids := slices.Sorted(maps.Keys(p.changed))
	clear(p.changed)
	return uids
}

// Run starts the probes, and waits for all of them when ctx ends.
func (p *Prober) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, probed := range p.pods {
		p.startProbes(probed) //nolint:contextcheck // p.ctx is ctx
	}
	p.mu.Unlock()
	_ = p.cfg.Tasks.Wait(ctx) // until its end
	p.mu.Lock()
	p.pods = map[types.UID]*pod{}
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

// Watch probes a pod that should run, or takes its newer version.
func (p *Prober) Watch(object *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed := p.pods[object.UID]
	if probed == nil {
		if !HasAny(object) {
			return
		}
		probed = &pod{probes: map[key]*probe{}}
		p.pods[object.UID] = probed
	}
	probed.object = object
	p.startProbes(probed)
	seen, _ := p.cfg.Cache.Last(object.UID)
	for at, one := range probed.probes {
		if at.kind != Readiness || object.DeletionTimestamp != nil || one.tracker.Result() == Success || !podstate.Alive(seen.Latest(at.container)) {
			continue
		}
		select { // a container that has just started need not wait for a period to be ready
		case one.nudge <- struct{}{}:
		default:
		}
	}
}

// startProbes starts the probes of a pod that do not run yet. The caller holds the lock.
func (p *Prober) startProbes(probed *pod) {
	if p.ctx == nil || p.ctx.Err() != nil {
		return
	}
	for _, spec := range Containers(probed.object) {
		for _, kind := range Kinds() {
			at := key{spec.Name, kind}
			if ProbeOf(spec, kind) == nil || probed.probes[at] != nil {
				continue
			}
			ctx, stop := context.WithCancel(p.ctx)
			one := &probe{tracker: NewTracker(kind), stop: stop, nudge: make(chan struct{}, 1)}
			probed.probes[at] = one
			p.running.Go(func() { p.run(ctx, probed.object.UID, at) })
		}
	}
}

// Forget ends all probes of a pod.
func (p *Prober) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed := p.pods[uid]
	if probed == nil {
		return
	}
	for _, one := range probed.probes {
		one.stop()
	}
	delete(p.pods, uid)
}

// Container returns the state of a running container's probes.
func (p *Prober) Container(uid types.UID, name, id string) State {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed := p.pods[uid]
	return StateOf(id, func(kind Kind) (Tracker, bool) {
		if probed == nil || probed.probes[key{name, kind}] == nil {
			return Tracker{}, false
		}
		return probed.probes[key{name, kind}].tracker, true
	})
}

// run runs one probe until it ends.
func (p *Prober) run(ctx context.Context, uid types.UID, at key) {
	for {
		object, one := p.find(uid, at)
		if one == nil || ctx.Err() != nil {
			return
		}
		spec := containerOf(object, at.container)
		if spec == nil || ProbeOf(spec, at.kind) == nil {
			return
		}
		what := ProbeOf(spec, at.kind)
		if !p.tick(ctx, object, spec, at) {
			return
		}
		if !p.pause(ctx, Period(what), one.nudge) {
			return
		}
	}
}

// nudgeDelay is the time from a nudge to the probe. In that time the status of the nudge's cause is
// sent.
const nudgeDelay = 10 * time.Millisecond

// pause waits for the next tick. It returns false if there is none.
func (p *Prober) pause(ctx context.Context, period time.Duration, nudge <-chan struct{}) bool {
	waiting, cancel := p.cfg.Clock.Timeout(ctx, period)
	defer cancel()
	if p.cfg.Tasks.Wait(waiting, nudge) == nil {
		return p.cfg.Clock.Sleep(ctx, nudgeDelay) == nil
	}
	return ctx.Err() == nil
}

func (p *Prober) find(uid types.UID, at key) (*corev1.Pod, *probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed := p.pods[uid]
	if probed == nil {
		return nil, nil
	}
	return probed.object, probed.probes[at]
}

// tick probes a container once. It returns false if the probe ends.
func (p *Prober) tick(ctx context.Context, object *corev1.Pod, spec *corev1.Container, at key) bool {
	target := p.target(object, spec)
	what := ProbeOf(spec, at.kind)
	var decision Decision
	p.stepTracker(object.UID, at, func(t Tracker) (next Tracker) {
		next, decision = t.Tick(target, what, p.cfg.Clock.Now())
		return next
	})
	switch decision {
	case End:
		return false
	case Skip:
		return true
	case Probe:
	}
	outcome, output, err := p.runProbe(ctx, object, spec, target.ID, what)
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		p.cfg.Events.ContainerEvent(object, spec.Name, corev1.EventTypeWarning, "Unhealthy",
			fmt.Sprintf("%s probe errored and resulted in unknown state: %v", at.kind, err))
		return true
	}
	if outcome == Failure {
		p.cfg.Events.ContainerEvent(object, spec.Name, corev1.EventTypeWarning, "Unhealthy", at.kind.String()+" probe failed: "+output)
	}
	p.stepTracker(object.UID, at, func(t Tracker) Tracker { return t.RecordOutcome(outcome, what) })
	return true
}

// target returns a container as the runtime shows it now.
func (p *Prober) target(object *corev1.Pod, spec *corev1.Container) Target {
	seen, _ := p.cfg.Cache.Last(object.UID)
	return TargetOf(object, spec, seen.Latest(spec.Name), func(id string) State { return p.Container(object.UID, spec.Name, id) })
}

// stepTracker steps a tracker, and wakes the reader of Changes if its result changed.
func (p *Prober) stepTracker(uid types.UID, at key, step func(Tracker) Tracker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed := p.pods[uid]
	if probed == nil || probed.probes[at] == nil {
		return
	}
	before := probed.probes[at].tracker
	after := step(before)
	probed.probes[at].tracker = after
	if before.Result() == after.Result() {
		return
	}
	p.changed[uid] = true
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
