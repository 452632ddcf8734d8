package view

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Follower is the part of the API that a set uses.
type Follower interface {
	Follow(ctx context.Context, target podapi.Target, options metav1.ListOptions, sink podapi.Sink) error
}

// Set holds the copies that the controllers of one process share.
type Set struct {
	api    Follower
	gate   *EventGate
	copies map[string]anyCopy
}

// anyCopy is a copy of any kind.
type anyCopy interface {
	follow(ctx context.Context, api Follower) error
	Filled() <-chan struct{}
}

// NewSet returns a set without copies. The gate is for tests; nil means none.
func NewSet(api Follower, gate *EventGate) *Set {
	return &Set{api: api, gate: gate, copies: map[string]anyCopy{}}
}

// Of returns the set's copy of a kind, named by its group resource: "pods", "deployments.apps". It
// panics if there is no such kind, or if the kind has another Go type: both are bugs in a
// controller. Call it before the set runs.
func Of[T kinds.Object](s *Set, groupResource string) *Copy[T] {
	if known, ok := s.copies[groupResource]; ok {
		typed, ok := known.(*Copy[T])
		if !ok {
			panic(fmt.Sprintf("view of %s: asked for as %T and as %T", groupResource, known, typed))
		}
		return typed
	}
	kind, ok := kinds.ByResource(groupResource)
	if !ok {
		panic(fmt.Sprintf("view of %s: no such kind", groupResource))
	}
	made := newCopy[T](kind)
	made.gate = s.gate.gateOf(groupResource)
	s.copies[groupResource] = made
	return made
}

// Run keeps all copies up to date until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	group := daemon.NewGroup(ctx)
	for _, name := range slices.Sorted(maps.Keys(s.copies)) {
		group.Go(func(ctx context.Context) error { return s.copies[name].follow(ctx, s.api) })
	}
	group.Go(s.gate.run)
	return group.Wait()
}

// Wait returns once every copy is filled, or with the error of ctx.
func (s *Set) Wait(ctx context.Context) error {
	for _, one := range s.copies {
		select {
		case <-one.Filled():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
