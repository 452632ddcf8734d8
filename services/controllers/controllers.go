// Package controllers is the process that runs podfall's controllers. Each has a
// folder with a pure decide.go and a thin controller.go, acts only on its own view of
// the cluster, and only through the API. registry.go lists them.
//
// # How to write one
//
//	package sample // decide.go: func Decide(View, now) Plan, pure, with a table of tests
//
//	type Controller struct { pods *view.Copy[*corev1.Pod]; loop *loop.Loop[view.Key]; … }
//
//	func New(base control.Base) *Controller {
//		c := &Controller{pods: view.Of[*corev1.Pod](base.Views, "pods"), client: control.Of[*corev1.Pod](base.API, "pods")}
//		c.loop = loop.New(loop.Config{Name: "sample", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: 5}, c.sync)
//		c.pods.On(func(old, now *corev1.Pod) { c.loop.Add(…) }) // nil is absent; must not block
//		return c
//	}
//	func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) } // the views are filled
//	func (c *Controller) sync(ctx context.Context, key view.Key) error { read views; Decide; write with preconditions }
//
// and a row in registry.go. An error from sync brings the key back later, a nil forgets its
// failures. Objects of a view are shared: change a DeepCopy. base.Events(component) records
// events. A write is conditional on what was read: control.Resource sends the resourceVersion
// of an update and the UID of a delete.
package controllers

import (
	"context"
	"log/slog"
	"slices"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/events"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/faults"
	"github.com/podfall/podfall/services/controllers/view"
)

// Config is what the process needs.
type Config struct {
	Bus    *bus.Conn
	Clock  clock.Clock
	Boot   proto.Boot
	Compat proto.Compat
	Log    *slog.Logger
	// Select names the controllers to run, as [Select] reads it; none means all.
	Select []string
	// Valve holds up what the controllers see; nil, except in tests.
	Valve *view.EventGate
	// Observers are told what the controllers decide, and may ask which run.
	inspect.Observers[inspect.Controllers]
	control.Machine
	// Board is where Faults and Partitions take effect; without it they are not known.
	Board faults.Board
	// Ready is called once the controllers run.
	Ready func()
}

// Run runs the controllers until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	rows, err := chosen(cfg.Select)
	if err != nil {
		return err
	}
	api := podapi.New(cfg.Bus, podapi.Config{Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log, Faults: cfg.Faults, History: cfg.History})
	speakers := &speakers{api: api, clock: cfg.Clock, log: cfg.Log}
	kinds := &known{api: api}
	base := control.Base{
		API: api, Collections: api, Kinds: kinds.directory, Clock: cfg.Clock, Compat: cfg.Compat, Machine: cfg.Machine, Metrics: cfg.Metrics,
		Views: view.NewSet(api, cfg.Valve), Events: speakers.recorder, History: cfg.History,
	}
	begin := make([]func(context.Context) error, 0, len(rows))
	for _, row := range rows {
		base.Log, base.API = cfg.Log.With("controller", row.name), control.WithHistory(api.WithName("controllers/"+row.name), cfg.History, row.name)
		begin = append(begin, row.make(base).Run)
	}
	if cfg.Board != nil {
		base.Log, base.API = cfg.Log.With("controller", "faults"), api.WithName("controllers/faults")
		begin = append(begin, faults.New(base, cfg.Board).Run)
	}
	began := cfg.Clock.Now()
	cfg.ProvideInspect(func(context.Context) inspect.Controllers {
		self := inspect.Self{Process: "controllers", Boot: cfg.Boot, Began: began, Now: cfg.Clock.Now()}
		return inspect.Controllers{Self: self, Running: names(rows)}
	})
	work := func(ctx context.Context) error {
		if err := base.Views.Wait(ctx); err != nil {
			return err
		}
		if err := kinds.wait(ctx); err != nil {
			return err
		}
		if cfg.Ready != nil {
			cfg.Ready()
		}
		return daemon.Run(ctx, begin...)
	}
	return daemon.Run(ctx, slices.Concat(speakers.parts(), kinds.parts(), []func(context.Context) error{base.Views.Run, work})...)
}

// speakers is a recorder of events for each component that speaks.
type speakers struct {
	api   *podapi.Client
	clock clock.Clock
	log   *slog.Logger
	known []speaker
}

type speaker struct {
	component string
	*events.Recorder
}

// recorder is the recorder of one component.
func (s *speakers) recorder(component string) control.Recorder {
	for _, one := range s.known {
		if one.component == component {
			return one
		}
	}
	made := speaker{component, events.New(events.Config{
		API: s.api, Clock: s.clock, RateLimit: events.DefaultRateLimit(), Component: component, Log: s.log,
	})}
	s.known = append(s.known, made)
	return made
}

func (s *speakers) parts() []func(context.Context) error {
	parts := make([]func(context.Context) error, 0, len(s.known))
	for _, one := range s.known {
		parts = append(parts, one.Run)
	}
	return parts
}

// known is the directory of kinds, followed if a controller asks for it.
type known struct {
	api  *podapi.Client
	kept *directory.Directory
}

func (k *known) directory() *directory.Directory {
	if k.kept == nil {
		k.kept = directory.New()
	}
	return k.kept
}

// wait returns once the definitions have been read, or with the error of ctx: an owner of a
// custom kind is not to be taken for one of no kind.
func (k *known) wait(ctx context.Context) error {
	if k.kept == nil {
		return nil
	}
	select {
	case <-k.kept.Filled():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *known) parts() []func(context.Context) error {
	if k.kept == nil {
		return nil
	}
	return []func(context.Context) error{func(ctx context.Context) error { return k.kept.Follow(ctx, k.api) }}
}
