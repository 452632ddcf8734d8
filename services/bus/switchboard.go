package bus

import (
	"context"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/partition"
)

// Switchboard keeps a cluster's links as its cuts want them, those that flap or end by
// themselves too.
type Switchboard struct {
	links   []*Link
	parties []string
	clock   clock.Clock

	mu      sync.Mutex
	cuts    []partition.Cut
	changed chan struct{}
}

// NewSwitchboard is for all links of a cluster, which are whole. Their cuts are in the
// clock's time. Run it.
func NewSwitchboard(links []*Link, clock clock.Clock) *Switchboard {
	s := &Switchboard{links: links, clock: clock, changed: make(chan struct{}, 1)}
	for _, link := range links {
		s.parties = append(s.parties, link.Party)
	}
	return s
}

// Set makes cuts all that is wrong with the network, at once.
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

// apply sets every link, and returns when one of them is to change by itself.
func (s *Switchboard) apply() (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Steady()
	for _, link := range s.links {
		condition, turn := partition.ConditionOf(s.cuts, link.Party, s.parties, now)
		link.Set(condition)
		if !turn.IsZero() && (next.IsZero() || turn.Before(next)) {
			next = turn
		}
	}
	return next
}

// Run changes links when their time has come, until ctx ends.
func (s *Switchboard) Run(ctx context.Context) error {
	for {
		if err := s.await(ctx, s.apply()); err != nil {
			return err
		}
	}
}

// await returns when there are other cuts, or an instant has come; zero never does.
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
