package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Config is how a scenario is played.
type Config struct {
	World World
	Clock clock.Clock
	// Compat is the release whose columns are shown.
	Compat proto.Compat
	// Harmless leaves out all that is wrong, and so what mends it: a scenario that then
	// still goes as told shows nothing.
	Harmless bool
	// Seed is that of faults that name none.
	Seed uint64
	// Late is how late, on the wall, the machine may make what is to happen within a time: other
	// processes than this one stand still sometimes, and nobody has broken anything.
	Late time.Duration
	// Told is told of each step before it is played; it may be nil.
	Told func(number int, step Step)
}

// Player plays one scenario once.
type Player struct {
	cfg   Config
	kinds *directory.Directory
	// uids are what was remembered.
	uids map[string]types.UID
	// names are those of objects that were spoken of by a label.
	names map[Ref]string
	// behind are requests whose answers no step waits for.
	behind sync.WaitGroup
}

// Play plays the steps until one fails or ctx ends.
func Play(ctx context.Context, s Scenario, cfg Config) Report {
	p := &Player{cfg: cfg, kinds: directory.New(), uids: map[string]types.UID{}, names: map[Ref]string{}}
	report := Report{Scenario: s}
	ctx, cancel := context.WithCancel(ctx)
	defer p.behind.Wait()
	defer cancel()
	begun := cfg.Clock.Now()
	for i, step := range s.Steps {
		if cfg.Told != nil {
			cfg.Told(i, step)
		}
		at := cfg.Clock.Now()
		err := p.play(ctx, step)
		report.Steps = append(report.Steps, Played{Step: step, Took: cfg.Clock.Since(at), Err: err})
		if err != nil {
			report.Err = fmt.Errorf("steps[%d] (%s): %w", i, step.kind(), err)
			break
		}
	}
	report.Took = cfg.Clock.Since(begun)
	return report
}

func (p *Player) play(ctx context.Context, step Step) error {
	if p.cfg.Harmless {
		step = step.harmless()
	}
	switch {
	case step.Apply != "":
		return p.apply(ctx, step.Apply)
	case step.Delete != nil:
		return p.delete(ctx, *step.Delete)
	case step.Evict != nil:
		return p.evict(ctx, *step.Evict)
	case step.Patch != nil:
		return p.patch(ctx, *step.Patch)
	case step.Break != nil:
		return p.cfg.World.Break(ctx, step.Break.seeded(p.cfg.Seed))
	case step.Mend != nil:
		return p.cfg.World.Mend(ctx, *step.Mend)
	case step.Remember != nil:
		return p.remember(ctx, step.Remember)
	case step.Wait != nil:
		return p.cfg.Clock.Sleep(ctx, step.Wait.Duration)
	case step.Expect != nil:
		return p.expect(ctx, *step.Expect)
	}
	return nil
}

// harmless is the step where nothing is to be wrong; the zero step when nothing is left.
func (s Step) harmless() Step {
	if s.Breaks || s.Break != nil || s.Mend != nil {
		return Step{}
	}
	if s.Unbroken != "" {
		s.Apply = s.Unbroken
	}
	return s
}

// seeded is what breaks with a seed, if it has none of its own.
func (b Break) seeded(seed uint64) Break {
	if b.Fault != nil && b.Fault.Spec.Seed == 0 {
		seeded := *b.Fault
		seeded.Spec.Seed = seed
		b.Fault = &seeded
	}
	return b
}

// kind finds a kind by any of its names, the ones that were defined meanwhile included.
func (p *Player) kind(ctx context.Context) func(string) (kinds.Kind, bool) {
	return func(alias string) (kinds.Kind, bool) {
		if kind, ok := p.kinds.ByAlias(alias); ok {
			return kind, true
		}
		if p.kinds.Load(ctx, p.cfg.World) != nil {
			return kinds.Kind{}, false
		}
		return p.kinds.ByAlias(alias)
	}
}

// uid is what was remembered under a name.
func (p *Player) uid(name string) (types.UID, error) {
	uid, ok := p.uids[name]
	if !ok {
		return "", fmt.Errorf("%q: no step has remembered that", name)
	}
	return uid, nil
}

// The waits of expectations, in the cluster's time: how long a thing may take that says
// nothing else, and how often to look.
const (
	usualWithin = time.Minute
	lookEvery   = time.Second
	// lookAtMost is how often to look at most, on the wall.
	lookAtMost = 20 * time.Millisecond
)

// until calls look again and again until it returns nil, or for so long.
func (p *Player) until(ctx context.Context, within time.Duration, look func(context.Context) error) error {
	deadline := p.cfg.Clock.Now().Add(within + p.cfg.Clock.ClusterDuration(p.cfg.Late))
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if !p.cfg.Clock.Now().Before(deadline) {
			return fmt.Errorf("after %s: %w", within, err)
		}
		if p.pause(ctx) != nil {
			return err
		}
	}
}

// throughout calls look again and again for so long, and returns its first error; on a machine
// that may be late, the first that a second look confirms.
func (p *Player) throughout(ctx context.Context, stays time.Duration, look func(context.Context) error) error {
	begun := p.cfg.Clock.Now()
	for p.cfg.Clock.Since(begun) < stays {
		if err := p.pause(ctx); err != nil {
			return err
		}
		err := look(ctx)
		if err != nil && p.cfg.Late > 0 {
			err = look(ctx) // it may have stood still while it was looked at
		}
		if err != nil {
			return fmt.Errorf("it was so, but not for %s: after %s %w", stays, p.cfg.Clock.Since(begun).Round(time.Millisecond), err)
		}
	}
	return nil
}

func (p *Player) pause(ctx context.Context) error {
	wall := p.cfg.Clock.ClampWallDuration(lookAtMost, lookEvery)
	return clock.Clock{}.Sleep(ctx, wall)
}
