// Package controllers is the process that runs podfall's controllers. Each has a
// folder with a pure decide.go and a thin controller.go, acts only on its own view of
// the cluster, and only through the API.
package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/events"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/scheduler"
)

// Config is what the process needs.
type Config struct {
	Bus    *bus.Conn
	Clock  clock.Clock
	Boot   proto.Boot
	Compat proto.Compat
	Log    *slog.Logger
	// Only names the controllers to run; none means all.
	Only []string
	// Ready is called once the controllers run.
	Ready func()
}

// Names lists the controllers there are.
func Names() []string { return slices.Sorted(maps.Keys(all())) }

// start makes one controller of what they all need.
type start func(Config, *podapi.Client, *events.Recorder) func(context.Context) error

func all() map[string]start {
	return map[string]start{
		"scheduler": func(cfg Config, api *podapi.Client, recorder *events.Recorder) func(context.Context) error {
			return scheduler.New(api, recorder, cfg.Log.With("controller", "scheduler")).Run
		},
	}
}

// Run runs the controllers until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	names := cfg.Only
	if len(names) == 0 {
		names = Names()
	}
	api := podapi.New(cfg.Bus, podapi.Config{Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log})
	recorder := events.New(events.Config{
		API: api, Clock: cfg.Clock, Timing: events.Default(), Component: "default-scheduler", Log: cfg.Log,
	})
	parts := []func(context.Context) error{recorder.Run}
	for _, name := range names {
		begin, known := all()[name]
		if !known {
			return fmt.Errorf("controllers: %q: want some of %s", name, strings.Join(Names(), ", "))
		}
		parts = append(parts, begin(cfg, api, recorder))
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	return daemon.Run(ctx, parts...)
}
