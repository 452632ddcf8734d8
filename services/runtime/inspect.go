package runtime

import (
	"cmp"
	"context"
	"slices"

	"github.com/podfall/podfall/internal/inspect"
)

// tell is what the runtime says of its insides.
func (s *service) tell(context.Context) inspect.Runtime {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Steady()
	said := inspect.Runtime{
		Self:  inspect.Self{Process: "runtime", Boot: s.boot, Began: s.clock.Told(s.began), Now: s.clock.Read(now)},
		Ahead: s.clock.Read(now).Sub(now), Programs: s.programs,
	}
	all := make([]*container, 0, len(s.containers))
	for _, c := range s.containers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *container) int { return cmp.Compare(a.order, b.order) })
	for _, c := range all {
		box := c.sandbox.born
		said.Containers = append(said.Containers, inspect.Container{
			ID: c.id, Name: c.request.Name, Namespace: box.PodNamespace, Pod: box.PodName, UID: box.PodUid,
			Alive: c.alive(), PID: c.status.PID, Scripted: c.scripted(), Code: c.status.ExitCode, Unreachable: c.status.Unreachable,
			Times: inspect.Times{
				Started: s.clock.Told(c.events.Start), Signaled: s.clock.Told(c.events.Stop),
				Killed: s.clock.Told(c.events.Kill), Exited: s.clock.Told(c.status.FinishedAt),
			},
		})
	}
	return said
}
