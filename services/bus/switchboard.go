package bus

import (
	"context"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/partition"
)

// Switchboard applies cuts to a cluster's links, including cuts that flap or end by themselves.
type Switchboard struct {
	links   []*Link
	members []string
	clock   clock.Clock

	mu      sync.Mutex
	cuts    []partition.Cut
	changed chan struct{}
}

// NewSwitchboard returns a Switchboard for all links of a cluster, which must be uncut. Cuts use
// the clock's time. The caller must call Run.
func NewSwitchboard(links []*Link, clock clock.Clock) *Switchboard {
	s := &Switchboard{links: links, clock: clock, changed: make(chan struct{}, 1)}
	for _, link := range links {
		s.members = append(s.members, link.Member)
	}
	return s
}

// Set replaces all cuts at once.
func (s *Switchboard) Set(cuts []partition.Cut) {
	s.mu.Lock()
	s.cuts = cuts
	s.mu.Unlock()
	s.apply()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// apply sets every link's condition, and returns when the next one changes by itself; zero if none
// does.
func (s *Switchboard) apply() (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Steady()
	for _, link := range s.links {
		condition, turn := partition.ConditionOf(s.cuts, link.Member, s.members, now)
		link.Set(condition)
		if !turn.IsZero() && (next.IsZero() || turn.Before(next)) {
			next = turn
		}
	}
	return next
}

// Run updates links whenever their conditions change by themselves, until ctx ends.
func (s *Switchboard) Run(ctx context.Context) error {
	for {
		if err := s.await(ctx, s.apply()); err != nil {
			return err
		}
	}
}

// await returns when the cuts have changed or next has come; a zero next never comes.
func (s *Switchboard) await(ctx context.Context, next time.Time) error {
	var due <-chan time.Time
	if !next.IsZero() {
		timer := s.clock.Timer(max(next.Sub(s.clock.Steady()), 0))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.changed:
	case <-due:
	}
	return nil
}
