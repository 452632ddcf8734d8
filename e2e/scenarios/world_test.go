// Package scenarios plays every file of chaos/scenarios in virtual time, and once more with
// nothing broken, which must not go as told.
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

// world is a cluster in a bubble that a scenario can break.
type world struct {
	*podapi.Client
	parts *inprocess.Cluster
	nodes []string
	// faults are those that the client itself suffers.
	faults *fault.Table
	// server is the apiserver's clock, which a fault can set wrong.
	server *clock.Movement
	face   clock.Face
}

var errCannot = errors.New("cannot be had in one process")

// newWorld starts the cluster that a scenario needs.
func newWorld(t *testing.T, needs scenario.Cluster) *world {
	t.Helper()
	w := &world{nodes: []string{"node-1"}}
	for i := 2; i <= needs.Nodes; i++ {
		w.nodes = append(w.nodes, fmt.Sprintf("node-%d", i))
	}
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	if w.face, err = clock.NewFace(clock.Clock{}.Now(), 1); err != nil {
		t.Fatal(err)
	}
	w.server = clock.NewMovement(w.face)
	cfg := inprocess.Config{
		Clocks: inprocess.Clocks{Wrong: map[string]clock.Clock{"apiserver": w.server.Clock()}},
		Dir:    t.TempDir(), Nodes: w.nodes, Compat: compat, Boot: newBoot, Log: slog.New(slog.DiscardHandler),
		Kubelet: func(string) kubelet.Config { return kubelet.Config{Timing: kubelet.Default()} },
		Ended:   func(name string, err error) { t.Errorf("%s has ended by itself: %v", name, err) },
	}
	cfg.Controllers.Select, cfg.APIServer.DisablePlugins = needs.Controllers, needs.DisableAdmission
	if w.parts, err = inprocess.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keptPromises(t, cfg.Dir) }) // when all has been closed
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

// Break implements scenario.Breaker.
func (w *world) Break(_ context.Context, what scenario.Break) error {
	switch {
	case what.Cut != nil:
		return w.cut(*what.Cut)
	case what.Fault != nil:
		added, err := fault.New(what.Fault.Name, what.Fault.Spec, clock.Clock{}.Now())
		if err == nil {
			w.breaks(append(w.parts.Broken(), added)...)
		}
		return err
	case what.Crash != "":
		return w.parts.Stop(what.Crash)
	}
	return fmt.Errorf("%+v: %w", what, errCannot)
}

// breaks makes faults all that is broken, for the parts and for the client.
func (w *world) breaks(faults ...fault.Fault) {
	w.parts.Break(faults...)
	w.faults.Set(faults)
	w.server.Right()
	for _, f := range faults {
		if skew, err := time.ParseDuration(f.Spec.Effect.Value); f.Spec.Point == fault.ClockSkew && err == nil {
			w.server.Mislead(clock.Error{Since: f.Since, Ahead: skew})
		}
	}
}

func (w *world) cut(spec partition.Spec) error {
	cut, err := partition.New(strings.Join(spec.Parties, "."), spec, w.parts.Parties(), clock.Clock{}.Now())
	if err == nil {
		w.parts.Cut(append(w.parts.Cuts(), cut)...)
	}
	return err
}

// Mend implements scenario.Breaker.
func (w *world) Mend(ctx context.Context, what scenario.Mend) error {
	switch {
	case len(what.Heal) > 0:
		return w.heal(ctx, what.Heal)
	case what.Clear != "":
		left := w.parts.Broken()
		w.breaks(slices.DeleteFunc(left, func(f fault.Fault) bool { return f.Name == what.Clear })...)
		return nil
	case what.Start != "":
		return w.parts.Start(ctx, what.Start)
	}
	return fmt.Errorf("%+v: %w", what, errCannot)
}

func (w *world) heal(ctx context.Context, parties []string) error {
	for _, party := range parties {
		w.parts.Cut(slices.DeleteFunc(w.parts.Cuts(), func(cut partition.Cut) bool {
			return slices.Contains(cut.Spec.Off(w.parts.Parties()), party)
		})...)
		if err := w.parts.Await(ctx, party); err != nil {
			return err
		}
	}
	return nil
}

// Why implements scenario.Witness.
func (w *world) Why(ctx context.Context, t podapi.Target) ([]string, error) {
	report, err := gather.Observer{API: w, Ask: gather.JSON(w.parts.Inspect)}.Why(ctx, t)
	return report.IDs(), err
}

// Alive implements scenario.Witness. It asks the runtimes, and where one is down, what all
// have written down.
func (w *world) Alive(ctx context.Context, uid types.UID) (int, error) {
	running := 0
	for _, node := range w.nodes {
		containers, err := w.containers(ctx, node)
		if err != nil {
			log, err := history.Read(w.parts.History())
			return log.Alive(uid), err
		}
		for _, c := range containers {
			if c.GetLabels()["io.kubernetes.pod.uid"] == string(uid) && c.GetState() == proto.ContainerState_CONTAINER_STATE_RUNNING {
				running++
			}
		}
	}
	return running, nil
}

func (w *world) containers(ctx context.Context, node string) ([]*proto.Container, error) {
	open := func() (net.Conn, error) { return w.parts.NodeBus(node) }
	// Not as a kubelet: a second one would fence the first.
	conn, err := bus.Dial(ctx, bus.Config{Identity: proto.Client("observer"), InProcess: open})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return runtimeapi.NewClient(conn, clock.Clock{}).ListContainers(ctx, "")
}

// Signals implements scenario.Witness.
func (w *world) Signals(_ context.Context, uid types.UID) ([]history.Event, error) {
	log, err := history.Read(w.parts.History())
	return log.Signals(uid), err
}
