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

// Runtime is the part of CRI that asks a container.
type Runtime interface {
	ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
}

// Cache is what is known of the runtime.
type Cache interface {
	Last(uid types.UID) (pod podstate.Pod, listed bool)
}

// Events tells people; it never blocks.
type Events interface {
	ContainerEvent(pod *corev1.Pod, container, kind, reason, message string)
}

// Config is what probes work with.
type Config struct {
	Runtime Runtime
	Cache   Cache
	Events  Events
	// Clock is the wall's if it is nil, and Tasks are goroutines.
	Clock task.Clock
	Tasks task.Scheduler
	Log   *slog.Logger
}

// Prober runs the probes of a node's pods, a task each.
//
// # Blocking
//
// Nothing but Run waits.
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

// New probes nothing yet.
func New(cfg Config) *Prober {
	if cfg.Clock == nil {
		cfg.Clock = clock.Clock{}
	}
	cfg.Tasks = task.OrGoroutines(cfg.Tasks)
	return &Prober{
		cfg: cfg, pods: map[types.UID]*pod{}, changed: map[types.UID]bool{}, wake: make(chan struct{}, 1), running: cfg.Tasks.Group(),
	}
}

// Changes has a token when the result of some probe has changed; see Take.
func (p *Prober) Changes() <-chan struct{} { return p.wake }

// Take are the pods of which the result of some probe has changed since the last Take.
func (p *Prober) Take() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids := slices.Sorted(maps.Keys(p.changed))
	clear(p.changed)
	return uids
}

// Run lets probes begin, and when ctx ends waits for all.
func (p *Prober) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, probed := range p.pods {
		p.begin(probed) //nolint:contextcheck // p.ctx is ctx
	}
	p.mu.Unlock()
	_ = p.cfg.Tasks.Wait(ctx) // until its end
	p.mu.Lock()
	p.pods = map[types.UID]*pod{}
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

// Watch probes a pod that is to run, or takes up its newer version.
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
	p.begin(probed)
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

// begin starts the probes that a pod has and that do not run yet. It is called under the
// lock.
func (p *Prober) begin(probed *pod) {
	if p.ctx == nil || p.ctx.Err() != nil {
		return
	}
	for _, spec := range Probed(probed.object) {
		for _, kind := range Kinds() {
			at := key{spec.Name, kind}
			if Of(spec, kind) == nil || probed.probes[at] != nil {
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

// Container is what is known of a running container.
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

// run is one probe's life.
func (p *Prober) run(ctx context.Context, uid types.UID, at key) {
	for {
		object, one := p.look(uid, at)
		if one == nil || ctx.Err() != nil {
			return
		}
		spec := containerOf(object, at.container)
		if spec == nil || Of(spec, at.kind) == nil {
			return
		}
		what := Of(spec, at.kind)
		if !p.tick(ctx, object, spec, at) {
			return
		}
		if !p.pause(ctx, Period(what), one.nudge) {
			return
		}
	}
}

// nudged is how soon a nudged probe asks. In it the status that the nudge came from is sent.
const nudged = 10 * time.Millisecond

// pause waits for the next tick; false means that there is none.
func (p *Prober) pause(ctx context.Context, period time.Duration, nudge <-chan struct{}) bool {
	waiting, cancel := p.cfg.Clock.Timeout(ctx, period)
	defer cancel()
	if p.cfg.Tasks.Wait(waiting, nudge) == nil {
		return p.cfg.Clock.Sleep(ctx, nudged) == nil
	}
	return ctx.Err() == nil
}

func (p *Prober) look(uid types.UID, at key) (*corev1.Pod, *probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	probed := p.pods[uid]
	if probed == nil {
		return nil, nil
	}
	return probed.object, probed.probes[at]
}

// tick is one look at a container; false ends the probe.
func (p *Prober) tick(ctx context.Context, object *corev1.Pod, spec *corev1.Container, at key) bool {
	target := p.target(object, spec)
	what := Of(spec, at.kind)
	var decision Decision
	p.change(object.UID, at, func(t Tracker) (next Tracker) {
		next, decision = t.Tick(target, what, p.cfg.Clock.Now())
		return next
	})
	switch decision {
	case End:
		return false
	case Leave:
		return true
	case Ask:
	}
	outcome, output, err := p.ask(ctx, object, spec, target.ID, what)
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
	p.change(object.UID, at, func(t Tracker) Tracker { return t.Answer(outcome, what) })
	return true
}

// target is a container as the runtime shows it now.
func (p *Prober) target(object *corev1.Pod, spec *corev1.Container) Target {
	seen, _ := p.cfg.Cache.Last(object.UID)
	return TargetOf(object, spec, seen.Latest(spec.Name), func(id string) State { return p.Container(object.UID, spec.Name, id) })
}

// change steps a tracker, and tells when its result is another one.
func (p *Prober) change(uid types.UID, at key, step func(Tracker) Tracker) {
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
