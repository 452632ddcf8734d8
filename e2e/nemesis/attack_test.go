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

// attack carries out steps, some of them at the same time.
type attack struct {
	*cluster

	drawer *Drawer
	// broken are the steps that have begun and are not mended, and done all that have begun.
	broken []broken
	done   []Step
	// left are processes that wait for the apiserver to be started.
	left []string
	// reader follows what the processes write down; seen is what they have written of faults.
	reader *history.Reader
	seen   []history.Event
}

type broken struct {
	Step

	until time.Time
}

// atOnce is how many things are broken at the same time at most.
const atOnce = 4

// run breaks things until so many have taken effect.
func (a *attack) run(ctx context.Context, faults int) error {
	for drawn := 0; ; drawn++ {
		inForce, err := a.inForce()
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
		if err := a.wait(ctx, a.drawer.between(100*time.Millisecond, 900*time.Millisecond)); err != nil {
			return err
		}
	}
}

// inForce is how many steps have taken effect, by what has been written down so far.
func (a *attack) inForce() (int, error) {
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

// begin breaks something. That what it is about is broken already is no error.
func (a *attack) begin(ctx context.Context, s Step) error {
	for _, command := range s.Begin {
		err := a.carryOut(ctx, command)
		if err != nil && strings.Contains(err.Error(), "does not run") {
			return a.mend(ctx, s) // of several some may have been ended
		}
		if err != nil {
			return err
		}
	}
	a.t.Logf("%s", s)
	a.done = append(a.done, s)
	if s.Alone {
		return errors.Join(pause(ctx, s.Lasts), a.mend(ctx, s))
	}
	a.broken = append(a.broken, broken{s, time.Now().Add(s.Lasts)})
	return nil
}

func (a *attack) carryOut(ctx context.Context, command []string) error {
	if command[0] == terminate {
		return a.terminate(ctx, command[1])
	}
	_, err := a.cluster.run(ctx, command...)
	return err
}

// wait mends what is due for a while, and whatever is too much.
func (a *attack) wait(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); ; {
		slices.SortFunc(a.broken, func(x, y broken) int { return x.until.Compare(y.until) })
		if len(a.broken) > 0 && (!time.Now().Before(a.broken[0].until) || len(a.broken) > atOnce && time.Now().After(end)) {
			s := a.broken[0].Step
			a.broken = a.broken[1:]
			if err := a.mend(ctx, s); err != nil {
				return err
			}
			continue
		}
		if time.Now().After(end) {
			return nil
		}
		next := end
		if len(a.broken) > 0 && a.broken[0].until.Before(end) {
			next = a.broken[0].until
		}
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
	}
}

// undo carries out the commands that end a step. What is over already is no error.
func (a *attack) undo(ctx context.Context, s Step) error {
	var failed error
	for _, command := range s.End {
		if _, err := a.cluster.run(ctx, command...); err != nil && !strings.Contains(err.Error(), "not found") && !strings.Contains(err.Error(), "does not run") {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// mend ends a step. A process that cannot start yet, because what it needs is broken too, is
// started by heal.
func (a *attack) mend(ctx context.Context, s Step) error {
	failed := a.undo(ctx, s)
	names, err := a.startable(ctx, slices.Concat(s.Down, a.left))
	if err != nil || len(names) == 0 {
		return errors.Join(failed, err)
	}
	if slices.Contains(names, "bus") { // without it nothing else can be mended
		failed = errors.Join(failed, a.startEnded(ctx, "bus"))
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.startEnded(short, names...); err != nil {
		a.t.Logf("%s: %v", s.Name, err)
		failed = errors.Join(failed, a.rescue(ctx))
	}
	return failed
}

// rescue mends all that is broken, and waits until everything runs: a process that cannot
// become ready because of something else that is broken would hold up all other starts.
func (a *attack) rescue(ctx context.Context) error {
	var failed error
	for _, s := range a.broken {
		failed = errors.Join(failed, a.undo(ctx, s.Step))
	}
	a.broken, a.left = nil, nil
	_, err := a.cluster.run(ctx, "up", "--detach")
	return errors.Join(failed, err)
}

// startable are those of the processes that can become ready: of those that ask the apiserver
// none while it is down, for a supervisor that waits for one starts nothing else. They are
// left for later.
func (a *attack) startable(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 || slices.Contains(names, "apiserver") {
		a.left = nil
		return names, nil
	}
	states, err := a.processes(ctx)
	if err != nil || states["apiserver"] == "running" {
		a.left = nil
		return names, err
	}
	own := func(name string) bool { return name == "bus" || strings.HasPrefix(name, "runtime/") }
	a.left = slices.DeleteFunc(slices.Clone(names), own)
	return slices.DeleteFunc(names, func(name string) bool { return !own(name) }), nil
}

// heal mends everything, whatever is known of it.
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
	a.broken = nil
	for _, command := range [][]string{
		{"clock", "resume"}, {"clock", "--speed", fmt.Sprint(speed)}, {"heal", "--all"}, {"fault", "clear", "--all"}, {"up", "--detach"},
	} {
		if _, err := a.cluster.run(ctx, command...); err != nil && !strings.Contains(err.Error(), "not paused") {
			return err
		}
	}
	return nil
}
