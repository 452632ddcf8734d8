package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/analysis/scenario"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// world is a running cluster in which a scenario is executed.
type world struct {
	*podapi.Client
	layout  cluster.Layout
	options cluster.Options
	compat  proto.Compat
	clock   *clock.Driver
	mgmt    *mgmt.Client
	// faults are injected into this client itself.
	faults *fault.Table
	close  func()
}

func openWorld(ctx context.Context, layout cluster.Layout) (*world, error) {
	w := &world{layout: layout}
	var err error
	if w.options, err = layout.Load(); err != nil {
		return nil, err
	}
	if w.compat, err = proto.CompatFor(w.options.Compat); err != nil {
		return nil, err
	}
	schedule, err := w.options.Schedule()
	if err != nil {
		return nil, err
	}
	w.clock = clock.NewDriver(schedule)
	conn, err := dialHub(ctx, layout)
	if err != nil {
		return nil, err
	}
	stop := followClock(ctx, conn, w.clock)
	w.close = func() { stop(); conn.Close() }
	w.mgmt = mgmt.NewClient(conn)
	w.faults = fault.NewTable(fault.Config{Process: string(proto.Admin), Clock: w.clock.Clock()})
	w.Client = podapi.New(conn, podapi.Config{Clock: w.clock.Clock(), Faults: w.faults})
	return w, nil
}

// Break implements scenario.FaultInjector.
func (w *world) Break(ctx context.Context, what scenario.Break) error {
	switch {
	case what.Cut != nil:
		return w.change(ctx, mgmt.Change{Cut: &mgmt.AddCut{Name: strings.Join(what.Cut.Members, "."), Spec: *what.Cut}})
	case what.Fault != nil:
		return w.change(ctx, mgmt.Change{AddFault: &mgmt.AddFault{Name: what.Fault.Name, Spec: what.Fault.Spec}})
	case what.Crash != "":
		return w.layout.Crash(ctx, w.options, what.Crash)
	}
	return w.layout.Pause(ctx, w.options, what.Pause)
}

// Mend implements scenario.FaultInjector.
func (w *world) Mend(ctx context.Context, what scenario.Mend) error {
	switch {
	case len(what.Heal) > 0:
		return w.change(ctx, mgmt.Change{Heal: &mgmt.Selection{Members: what.Heal}})
	case what.Clear != "":
		return w.change(ctx, mgmt.Change{ClearFaults: &mgmt.Selection{Names: []string{what.Clear}}})
	case what.Start != "":
		return w.layout.Restart(ctx, w.options, []string{what.Start}, func(string) {})
	}
	return w.layout.Resume(ctx, w.options, what.Resume)
}

// change changes the fault state, and this client's own faults.
func (w *world) change(ctx context.Context, change mgmt.Change) error {
	state, err := w.mgmt.Set(ctx, change)
	if err == nil {
		w.faults.Set(state.AllFaults())
	}
	return err
}

// Why implements scenario.Observer.
func (w *world) Why(ctx context.Context, t podapi.Target) ([]string, error) {
	ask := func(ctx context.Context, process string) ([]byte, error) { return w.mgmt.Inspect(ctx, process, nil) }
	report, err := gather.Observer{API: w, Ask: gather.JSON(ask), Clock: w.clock.Clock()}.Why(ctx, t)
	return report.IDs(), err
}

// CountRunning implements scenario.Observer. It asks the runtimes. If a runtime is down, it counts from the
// histories instead.
func (w *world) CountRunning(ctx context.Context, uid types.UID) (int, error) {
	alive := 0
	for _, node := range w.options.Nodes {
		raw, err := w.mgmt.Inspect(ctx, "runtime/"+node, nil)
		if errors.Is(err, bus.ErrNoResponder) {
			log, err := history.Read(w.layout.History())
			return log.CountRunning(uid), err
		}
		if err != nil {
			return 0, err
		}
		var answer inspect.Runtime
		if err := json.Unmarshal(raw, &answer); err != nil {
			return 0, err
		}
		for _, c := range answer.Containers {
			if c.Alive && c.UID == string(uid) {
				alive++
			}
		}
	}
	return alive, nil
}

// Signals implements scenario.Observer.
func (w *world) Signals(_ context.Context, uid types.UID) ([]history.Event, error) {
	log, err := history.Read(w.layout.History())
	return log.SignalsTo(uid), err
}
