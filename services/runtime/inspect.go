package runtime

import (
	"cmp"
	"context"
	"slices"

	"github.com/podfall/podfall/internal/inspect"
)

// snapshot returns the runtime's state for inspectors.
func (s *service) snapshot(context.Context) inspect.Runtime {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Steady()
	shown := s.clock.ApplySkew(now)
	ahead := shown.Sub(now)
	state := inspect.Runtime{
		Self:        inspect.Self{Process: "runtime", Boot: s.boot, Began: inspect.ShiftTime(s.began, ahead), Now: shown},
		ClockOffset: ahead, Programs: s.programs,
	}
	all := make([]*container, 0, len(s.containers))
	for _, c := range s.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *container) int { return cmp.Compare(a.order, b.order) })
	for _, c := range all {
		box := c.sandbox.created
		state.Containers = append(state.Containers, inspect.Container{
			ID: c.id, Name: c.request.Name, Namespace: box.PodNamespace, Pod: box.PodName, UID: box.PodUid,
			Alive: c.isAlive(), PID: c.status.PID, Scripted: c.isScripted(), Code: c.status.ExitCode, Unreachable: c.status.Unreachable,
			Times: inspect.Times{Started: c.events.Start, Signaled: c.events.Stop, Killed: c.events.Kill, Exited: c.status.FinishedAt}.Shift(ahead),
		})
	}
	return state
}
