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

// Config configures the run of a scenario.
type Config struct {
	// Cluster is the running cluster.
	Cluster Environment
	Clock   clock.Clock
	// Compat is the release that defines the columns.
	Compat proto.Compat
	// Harmless skips every fault, and what ends it. A scenario that then still succeeds shows
	// nothing.
	Harmless bool
	// Seed is the seed of faults without one.
	Seed uint64
	// Late is how late in wall time the machine may make what is expected within a time. Other
	// processes may stall without an injected fault.
	Late time.Duration
	// OnStep is called before each step; may be nil.
	OnStep func(number int, step Step)
}

// Runner runs one scenario once.
type Runner struct {
	cfg   Config
	kinds *directory.Directory
	// uids holds the remembered UIDs by name.
	uids map[string]types.UID
	// names holds the names of objects that were referenced by a label.
	names map[Ref]string
	// background waits for requests that no step waits for.
	background sync.WaitGroup
}

// Run runs the steps until one fails or ctx ends.
func Run(ctx context.Context, s Scenario, cfg Config) Report {
	p := &Runner{cfg: cfg, kinds: directory.New(), uids: map[string]types.UID{}, names: map[Ref]string{}}
	report := Report{Scenario: s}
	ctx, cancel := context.WithCancel(ctx)
	defer p.background.Wait()
	defer cancel()
	started := cfg.Clock.Now()
	for i, step := range s.Steps {
		if cfg.OnStep != nil {
			cfg.OnStep(i, step)
		}
		at := cfg.Clock.Now()
		err := p.runStep(ctx, step)
		report.Steps = append(report.Steps, StepResult{Step: step, Took: cfg.Clock.Since(at), Err: err})
		if err != nil {
			report.Err = fmt.Errorf("steps[%d] (%s): %w", i, step.name(), err)
			break
		}
	}
	report.Took = cfg.Clock.Since(started)
	return report
}

func (p *Runner) runStep(ctx context.Context, step Step) error {
	if p.cfg.Harmless {
		step = step.withoutFaults()
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
		return p.cfg.Cluster.Break(ctx, step.Break.withSeed(p.cfg.Seed))
	case step.Mend != nil:
		return p.cfg.Cluster.Mend(ctx, *step.Mend)
	case step.Remember != nil:
		return p.rememberUIDs(ctx, step.Remember)
	case step.Wait != nil:
		return p.cfg.Clock.Sleep(ctx, step.Wait.Duration)
	case step.Expect != nil:
		return p.checkExpect(ctx, *step.Expect)
	}
	return nil
}

// withoutFaults returns the step without faults; the zero step if nothing is left.
func (s Step) withoutFaults() Step {
	if s.Breaks || s.Break != nil || s.Mend != nil {
		return Step{}
	}
	if s.Unbroken != "" {
		s.Apply = s.Unbroken
	}
	return s
}

// withSeed returns b with a seed, if its fault has none.
func (b Break) withSeed(seed uint64) Break {
	if b.Fault != nil && b.Fault.Spec.Seed == 0 {
		seeded := *b.Fault
		seeded.Spec.Seed = seed
		b.Fault = &seeded
	}
	return b
}

// kindFinder returns a function that finds a kind by any of its names, including kinds defined
// during the scenario.
func (p *Runner) kindFinder(ctx context.Context) func(string) (kinds.Kind, bool) {
	return func(alias string) (kinds.Kind, bool) {
		if kind, ok := p.kinds.ByAlias(alias); ok {
			return kind, true
		}
		if p.kinds.Load(ctx, p.cfg.Cluster) != nil {
			return kinds.Kind{}, false
		}
		return p.kinds.ByAlias(alias)
	}
}

// rememberedUID returns the UID remembered under a name.
func (p *Runner) rememberedUID(name string) (types.UID, error) {
	uid, ok := p.uids[name]
	if !ok {
		return "", fmt.Errorf("%q: no step has remembered that", name)
	}
	return uid, nil
}

// Waits in cluster time: the default of Expect.Within, and the poll interval.
const (
	defaultWithin = time.Minute
	pollInterval  = time.Second
	// minPollInterval is the minimum of the poll interval in wall time.
	minPollInterval = 20 * time.Millisecond
)

// pollUntil calls check until it returns nil, or until within has passed.
func (p *Runner) pollUntil(ctx context.Context, within time.Duration, look func(context.Context) error) error {
	deadline := p.cfg.Clock.Now().Add(within + p.cfg.Clock.ClusterDuration(p.cfg.Late))
	for {
		err := look(ctx)
		if err == nil {
			return nil
		}
		if !p.cfg.Clock.Now().Before(deadline) {
			return fmt.Errorf("after %s: %w", within, err)
		}
		if p.sleepPoll(ctx) != nil {
			return err
		}
	}
}

// pollThroughout calls check repeatedly for the duration stays and returns its first error. On a
// machine that may be late, the error counts only if a second check confirms it.
func (p *Runner) pollThroughout(ctx context.Context, stays time.Duration, look func(context.Context) error) error {
	started := p.cfg.Clock.Now()
	for p.cfg.Clock.Since(started) < stays {
		if err := p.sleepPoll(ctx); err != nil {
			return err
		}
		err := look(ctx)
		if err != nil && p.cfg.Late > 0 {
			err = look(ctx) // the machine may have stalled during the first check
		}
		if err != nil {
			return fmt.Errorf("it was so, but not for %s: after %s %w", stays, p.cfg.Clock.Since(started).Round(time.Millisecond), err)
		}
	}
	return nil
}

func (p *Runner) sleepPoll(ctx context.Context) error {
	wall := p.cfg.Clock.ClampWallDuration(minPollInterval, pollInterval)
	return clock.Clock{}.Sleep(ctx, wall)
}
