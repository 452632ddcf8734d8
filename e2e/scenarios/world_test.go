// Package scenarios runs every file of chaos/scenarios in virtual time, and once more without
// faults, which must fail.
package scenarios

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/analysis/scenario"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/podfalltest/inprocess"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet"
)

// environment is a cluster in a bubble that a scenario can inject faults into.
type environment struct {
	*podapi.Client
	parts *inprocess.Cluster
	nodes []string
	// faults are injected into the client itself.
	faults *fault.Table
	// serverClock is the apiserver's clock, which a fault can set wrong.
	serverClock *clock.Driver
	schedule    clock.Schedule
}

var errUnsupported = errors.New("cannot be had in one process")

// newEnvironment starts the cluster that a scenario needs.
func newEnvironment(t *testing.T, needs scenario.Requirements) *environment {
	t.Helper()
	w := &environment{nodes: []string{"node-1"}}
	for i := 2; i <= needs.Nodes; i++ {
		w.nodes = append(w.nodes, fmt.Sprintf("node-%d", i))
	}
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	if w.schedule, err = clock.NewSchedule(clock.Clock{}.Now(), 1); err != nil {
		t.Fatal(err)
	}
	w.serverClock = clock.NewDriver(w.schedule)
	cfg := inprocess.Config{
		Clocks: inprocess.Clocks{Skewed: map[string]clock.Clock{"apiserver": w.serverClock.Clock()}},
		Dir:    t.TempDir(), Nodes: w.nodes, Compat: compat, Boot: newBoot, Log: slog.New(slog.DiscardHandler),
		Kubelet: func(string) kubelet.Config { return kubelet.Config{Timing: kubelet.Default()} },
		Ended:   func(name string, err error) { t.Errorf("%s has ended by itself: %v", name, err) },
	}
	cfg.Controllers.Select, cfg.APIServer.DisablePlugins = needs.Controllers, needs.DisableAdmission
	if w.parts, err = inprocess.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkInvariants(t, cfg.Dir) }) // after everything is closed
	t.Cleanup(w.parts.Close)
	parts := []string{"apiserver", "controllers"}
	for _, node := range w.nodes {
		parts = append(parts, "runtime/"+node, "kubelet/"+node)
	}
	for _, part := range parts {
		if err := w.parts.Start(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := bus.Dial(t.Context(), bus.Config{Identity: proto.Client("admin"), InProcess: w.parts.Hub})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	w.faults = fault.NewTable(fault.Config{Process: string(proto.Admin)})
	w.Client = podapi.New(conn, podapi.Config{Faults: w.faults})
	return w
}

func newBoot(string) proto.Boot {
	var entropy [4]byte
	_, _ = rand.Read(entropy[:]) // never fails
	return proto.NewBoot(clock.Clock{}.Now(), entropy)
}

// Break implements scenario.FaultInjector.
func (w *environment) Break(_ context.Context, what scenario.Break) error {
	switch {
	case what.Cut != nil:
		return w.cut(*what.Cut)
	case what.Fault != nil:
		added, err := fault.New(what.Fault.Name, what.Fault.Spec, clock.Clock{}.Now())
		if err == nil {
			w.setFaults(append(w.parts.Faults(), added)...)
		}
		return err
	case what.Crash != "":
		return w.parts.Stop(what.Crash)
	}
	return fmt.Errorf("%+v: %w", what, errUnsupported)
}

// setFaults replaces all faults, in the parts and in the client.
func (w *environment) setFaults(faults ...fault.Fault) {
	w.parts.SetFaults(faults...)
	w.faults.Set(faults)
	w.serverClock.ClearSkew()
	for _, f := range faults {
		if skew, err := time.ParseDuration(f.Spec.Effect.Value); f.Spec.Point == fault.ClockSkew && err == nil {
			w.serverClock.SetSkew(clock.Skew{Since: f.Since, Offset: skew})
		}
	}
}

func (w *environment) cut(spec partition.Spec) error {
	cut, err := partition.New(strings.Join(spec.Members, "."), spec, w.parts.Members(), clock.Clock{}.Now())
	if err == nil {
		w.parts.SetCuts(append(w.parts.Cuts(), cut)...)
	}
	return err
}

// Mend implements scenario.FaultInjector.
func (w *environment) Mend(ctx context.Context, what scenario.Mend) error {
	switch {
	case len(what.Heal) > 0:
		return w.heal(ctx, what.Heal)
	case what.Clear != "":
		left := w.parts.Faults()
		w.setFaults(slices.DeleteFunc(left, func(f fault.Fault) bool { return f.Name == what.Clear })...)
		return nil
	case what.Start != "":
		return w.parts.Start(ctx, what.Start)
	}
	return fmt.Errorf("%+v: %w", what, errUnsupported)
}

func (w *environment) heal(ctx context.Context, members []string) error {
	for _, member := range members {
		w.parts.SetCuts(slices.DeleteFunc(w.parts.Cuts(), func(cut partition.Cut) bool {
			return slices.Contains(cut.Spec.CutOff(w.parts.Members()), member)
		})...)
		if err := w.parts.AwaitConnected(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

// Why implements scenario.Observer.
func (w *environment) Why(ctx context.Context, t podapi.Target) ([]string, error) {
	report, err := gather.Observer{API: w, Ask: gather.JSON(w.parts.Inspect)}.Why(ctx, t)
	return report.IDs(), err
}

// CountRunning implements scenario.Observer. It asks the runtimes. If a runtime is down, it counts from
// the histories instead.
func (w *environment) CountRunning(ctx context.Context, uid types.UID) (int, error) {
	running := 0
	for _, node := range w.nodes {
		containers, err := w.containers(ctx, node)
		if err != nil {
			log, err := history.Read(w.parts.History())
			return log.CountRunning(uid), err
		}
		for _, c := range containers {
			if c.GetLabels()["io.kubernetes.pod.uid"] == string(uid) && c.GetState() == proto.ContainerState_CONTAINER_STATE_RUNNING {
				running++
			}
		}
	}
	return running, nil
}

func (w *environment) containers(ctx context.Context, node string) ([]*proto.Container, error) {
	open := func() (net.Conn, error) { return w.parts.NodeBus(node) }
	// Not as a kubelet: its newer boot would displace the first kubelet.
	conn, err := bus.Dial(ctx, bus.Config{Identity: proto.Client("observer"), InProcess: open})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return runtimeapi.NewClient(conn, clock.Clock{}).ListContainers(ctx, "")
}

// Signals implements scenario.Observer.
func (w *environment) Signals(_ context.Context, uid types.UID) ([]history.Event, error) {
	log, err := history.Read(w.parts.History())
	return log.SignalsTo(uid), err
}
