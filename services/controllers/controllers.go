// Package controllers is the process that runs podfall's controllers. Each has a folder with a pure
// decide.go and a thin controller.go, acts only on its own view of the cluster, and only through
// the API. registry.go lists them.
//
// # How to write one
//
//	package sample // decide.go: func Decide(View, now) Plan, pure, with a table of tests
//	type Controller struct { pods *view.Copy[*corev1.Pod]; loop *loop.Loop[view.Key]; … }
//	func New(base control.Base) *Controller {
//	c := &Controller{pods: view.Of[*corev1.Pod](base.Views, "pods"), client: control.Of[*corev1.Pod](base.API, "pods")}
//	c.loop = loop.New(loop.Config{Name: "sample", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: 5}, c.sync)
//	c.pods.OnChange(func(old, now *corev1.Pod) { c.loop.Add(…) }) // nil is absent; must not block
//	return c
//	}
//	func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) } // the views are filled
//	func (c *Controller) sync(ctx context.Context, key view.Key) error { read views; Decide; write with preconditions }
//
// and a row in registry.go. If sync returns an error, the key is retried later; nil resets its
// failures. Objects of a view are shared: change a DeepCopy. base.Events(component) records events.
// Writes are conditional on what was read: control.Resource sends the resourceVersion of an update
// and the UID of a delete.
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

// Config configures the process.
type Config struct {
	Bus    *bus.Conn
	Clock  clock.Clock
	Boot   proto.Boot
	Compat proto.Compat
	Log    *slog.Logger
	// Select names the controllers to run, as [Select] reads it; none means all.
	Select []string
	// EventGate delays what the controllers see; nil, except in tests.
	EventGate *view.EventGate
	// Observers receive the controllers' decisions, and may ask which controllers run.
	inspect.Observers[inspect.Controllers]
	control.Machine
	// FaultStore holds the shared fault state for Faults and Partitions; nil if these kinds are not
	// served.
	FaultStore faults.StateStore
	// Ready is called once the controllers run.
	Ready func()
}

// Run runs the controllers until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	rows, err := selectRows(cfg.Select)
	if err != nil {
		return err
	}
	api := podapi.New(cfg.Bus, podapi.Config{Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log, Faults: cfg.Faults, History: cfg.History})
	eventRecorders := &recorders{api: api, clock: cfg.Clock, log: cfg.Log}
	kinds := &kindDirectory{api: api}
	base := control.Base{
		API: api, Collections: api, Kinds: kinds.directory, Clock: cfg.Clock, Compat: cfg.Compat, Machine: cfg.Machine, Metrics: cfg.Metrics,
		Views: view.NewSet(api, cfg.EventGate), Events: eventRecorders.forComponent, History: cfg.History,
	}
	runs := make([]func(context.Context) error, 0, len(rows))
	for _, row := range rows {
		base.Log, base.API = cfg.Log.With("controller", row.name), control.WithHistory(api.WithName("controllers/"+row.name), cfg.History, row.name)
		runs = append(runs, row.make(base).Run)
	}
	if cfg.FaultStore != nil {
		base.Log, base.API = cfg.Log.With("controller", "faults"), api.WithName("controllers/faults")
		runs = append(runs, faults.New(base, cfg.FaultStore).Run)
	}
	began := cfg.Clock.Now()
	cfg.ProvideInspect(func(context.Context) inspect.Controllers {
		self := inspect.Self{Process: "controllers", Boot: cfg.Boot, Began: began, Now: cfg.Clock.Now()}
		return inspect.Controllers{Self: self, Running: sortedNames(rows)}
	})
	work := func(ctx context.Context) error {
		if err := base.Views.Wait(ctx); err != nil {
			return err
		}
		if err := kinds.waitFilled(ctx); err != nil {
			return err
		}
		if cfg.Ready != nil {
			cfg.Ready()
		}
		return daemon.Run(ctx, runs...)
	}
	return daemon.Run(ctx, slices.Concat(eventRecorders.tasks(), kinds.tasks(), []func(context.Context) error{base.Views.Run, work})...)
}

// recorders has an event recorder for each component.
type recorders struct {
	api   *podapi.Client
	clock clock.Clock
	log   *slog.Logger
	known []componentRecorder
}

type componentRecorder struct {
	component string
	*events.Recorder
}

// forComponent returns the recorder of one component.
func (s *recorders) forComponent(component string) control.Recorder {
	for _, recorder := range s.known {
		if recorder.component == component {
			return recorder
		}
	}
	added := componentRecorder{component, events.New(events.Config{
		API: s.api, Clock: s.clock, RateLimit: events.DefaultRateLimit(), Component: component, Log: s.log,
	})}
	s.known = append(s.known, added)
	return added
}

func (s *recorders) tasks() []func(context.Context) error {
	parts := make([]func(context.Context) error, 0, len(s.known))
	for _, one := range s.known {
		parts = append(parts, one.Run)
	}
	return parts
}

// kindDirectory is the directory of kinds. It is followed if a controller asks for it.
type kindDirectory struct {
	api      *podapi.Client
	followed *directory.Directory
}

func (k *kindDirectory) directory() *directory.Directory {
	if k.followed == nil {
		k.followed = directory.New()
	}
	return k.followed
}

// waitFilled returns once the definitions have been read, or with the error of ctx. Until then an
// owner of a custom kind would look like an owner of no kind.
func (k *kindDirectory) waitFilled(ctx context.Context) error {
	if k.followed == nil {
		return nil
	}
	select {
	case <-k.followed.Filled():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *kindDirectory) tasks() []func(context.Context) error {
	if k.followed == nil {
		return nil
	}
	return []func(context.Context) error{func(ctx context.Context) error { return k.followed.Follow(ctx, k.api) }}
}
