package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// attack runs steps, some of them concurrently.
type attack struct {
	*cluster

	drawer *Drawer
	// active are the steps that have begun and not ended; done are all that have begun.
	active []activeStep
	done   []Step
	// waiting are processes that must not start before the apiserver.
	waiting []string
	// reader follows the histories; seen are the fault events read so far.
	reader *history.Reader
	seen   []history.Event
}

type activeStep struct {
	Step

	until time.Time
}

// maxActive is how many steps are active at once at most.
const maxActive = 4

// run injects faults until so many have taken effect.
func (a *attack) run(ctx context.Context, faults int) error {
	for drawn := 0; ; drawn++ {
		inForce, err := a.countInForce()
		if err != nil {
			return err
		}
		if inForce >= faults {
			return nil
		}
		if drawn > 4*faults {
			return fmt.Errorf("of %d steps only %d took effect, want %d", len(a.done), inForce, faults)
		}
		if err := a.begin(ctx, a.drawer.Draw()); err != nil {
			return err
		}
		if err := a.wait(ctx, a.drawer.randomDuration(100*time.Millisecond, 900*time.Millisecond)); err != nil {
			return err
		}
	}
}

// countInForce returns how many steps have taken effect according to the histories so far.
func (a *attack) countInForce() (int, error) {
	log, err := a.reader.Next()
	if err != nil {
		return 0, err
	}
	for _, e := range log.Events {
		switch e.Fact.(type) {
		case history.FaultBegin, history.FaultTrigger:
			a.seen = append(a.seen, e)
		}
	}
	return len(InForce(a.done, a.seen)), nil
}

// begin starts a step. It is no error if the step's target is already down or cut.
func (a *attack) begin(ctx context.Context, s Step) error {
	for _, command := range s.Begin {
		err := a.runCommand(ctx, command)
		if err != nil && strings.Contains(err.Error(), "does not run") {
			return a.endStep(ctx, s) // some of the processes may have ended already
		}
		if err != nil {
			return err
		}
	}
	a.t.Logf("%s", s)
	a.done = append(a.done, s)
	if s.Alone {
		return errors.Join(sleep(ctx, s.Lasts), a.endStep(ctx, s))
	}
	a.active = append(a.active, activeStep{s, time.Now().Add(s.Lasts)})
	return nil
}

func (a *attack) runCommand(ctx context.Context, command []string) error {
	if command[0] == terminate {
		return a.terminate(ctx, command[1])
	}
	_, err := a.cluster.run(ctx, command...)
	return err
}

// wait ends steps that are due within d, and steps beyond maxActive.
func (a *attack) wait(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		slices.SortFunc(a.active, func(x, y activeStep) int { return x.until.Compare(y.until) })
		if len(a.active) > 0 && (!time.Now().Before(a.active[0].until) || len(a.active) > maxActive && time.Now().After(end)) {
			s := a.active[0].Step
			a.active = a.active[1:]
			if err := a.endStep(ctx, s); err != nil {
				return err
			}
			continue
		}
		if time.Now().After(end) {
			return nil
		}
		next := end
		if len(a.active) > 0 && a.active[0].until.Before(end) {
			next = a.active[0].until
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
	}
}

// runEnd runs the commands that end a step. It is no error if the fault is already over.
func (a *attack) runEnd(ctx context.Context, s Step) error {
	var failed error
	for _, command := range s.End {
		if _, err := a.cluster.run(ctx, command...); err != nil && !strings.Contains(err.Error(), "not found") && !strings.Contains(err.Error(), "does not run") {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// endStep ends a step. A process that cannot start yet, because another step has broken a
// dependency, is left to heal.
func (a *attack) endStep(ctx context.Context, s Step) error {
	failed := a.runEnd(ctx, s)
	names, err := a.canStart(ctx, slices.Concat(s.Down, a.waiting))
	if err != nil || len(names) == 0 {
		return errors.Join(failed, err)
	}
	if slices.Contains(names, "bus") { // without the bus no other step can end
		failed = errors.Join(failed, a.startEnded(ctx, "bus"))
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.startEnded(short, names...); err != nil {
		a.t.Logf("%s: %v", s.Name, err)
		failed = errors.Join(failed, a.endAll(ctx))
	}
	return failed
}

// endAll ends all steps and waits until everything runs. Otherwise a process that cannot become
// ready because of another fault would delay all other starts.
func (a *attack) endAll(ctx context.Context) error {
	var failed error
	for _, s := range a.active {
		failed = errors.Join(failed, a.runEnd(ctx, s.Step))
	}
	a.active, a.waiting = nil, nil
	_, err := a.cluster.run(ctx, "up", "--detach")
	return errors.Join(failed, err)
}

// canStart returns the processes that can become ready. While the apiserver is down, its clients
// cannot, and are put into waiting, because a supervisor that waits for one process starts no
// other.
func (a *attack) canStart(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 || slices.Contains(names, "apiserver") {
		a.waiting = nil
		return names, nil
	}
	states, err := a.processes(ctx)
	if err != nil || states["apiserver"] == "running" {
		a.waiting = nil
		return names, err
	}
	own := func(name string) bool { return name == "bus" || strings.HasPrefix(name, "runtime/") }
	a.waiting = slices.DeleteFunc(slices.Clone(names), own)
	return slices.DeleteFunc(names, func(name string) bool { return !own(name) }), nil
}

// heal ends all faults and cuts, whatever is recorded about them.
func (a *attack) heal(ctx context.Context, speed float64) error {
	states, err := a.processes(ctx)
	if err != nil {
		return err
	}
	for name, state := range states {
		if state == "paused" {
			if _, err := a.cluster.run(ctx, "resume", name); err != nil {
				return err
			}
		}
	}
	a.active = nil
	for _, command := range [][]string{
		{"clock", "resume"}, {"clock", "--speed", fmt.Sprint(speed)}, {"heal", "--all"}, {"fault", "clear", "--all"}, {"up", "--detach"},
	} {
		if _, err := a.cluster.run(ctx, command...); err != nil && !strings.Contains(err.Error(), "not paused") {
			return err
		}
	}
	return nil
}
