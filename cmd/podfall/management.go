package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	counts "github.com/podfall/podfall/internal/metrics"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/trouble"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/faults"
)

// managed is a process's end of its management connection.
type managed struct {
	process string
	clock   *clock.Driver
	faults  *fault.Table
	counts  *counts.Registry
	// historyDir is the directory of this process's history; empty for none.
	historyDir string
	limits     limits
	// report returns the service's telemetry, once the service has set it.
	report atomic.Pointer[func(context.Context) any]
	// history records fault hits and stalls, once [service.openHistory] has opened it.
	history atomic.Pointer[history.Recorder]
}

func hubFlag() cli.Flag {
	return &cli.StringFlag{Name: "hub", Usage: "the hub's `URL`s, separated by commas, for management; none for a process that nobody manages"}
}

// newManaged returns an unconnected managed: its clock follows schedule and no faults are active.
func newManaged(process string, schedule clock.Schedule) *managed {
	_, node, _ := strings.Cut(process, "/")
	m := &managed{process: process, clock: clock.NewDriver(schedule), counts: counts.NewRegistry()}
	m.faults = fault.NewTable(fault.Config{
		Process: process, Node: node, Clock: m.clock.Clock(),
		Crash: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }, // every process may kill itself
		OnTrigger: func(f fault.Fault, p fault.Point, a fault.Attributes) {
			trouble.RecordTriggers(m.history.Load())(f, p, a)
		},
	})
	started := m.counts.Gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.")
	started.Set(float64(clock.Clock{}.Now().UnixMilli()) / 1000)
	goroutines := m.counts.Gauge("go_goroutines", "Number of goroutines that currently exist.")
	memory := m.counts.Gauge("go_memory_classes_total_bytes", "All memory mapped by the Go runtime into the current process as read-write.")
	m.counts.OnCollect(func() {
		read := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/total:bytes"}}
		metrics.Read(read)
		goroutines.Set(float64(read[0].Value.Uint64()))
		memory.Set(float64(read[1].Value.Uint64()))
	})
	return m
}

// apply applies a new fault state to this process.
func (m *managed) apply(state mgmt.FaultState) {
	m.faults.Set(state.AllFaults())
	m.clock.Set(state.Clock)
	if wrong, ok := m.faults.FindFault(fault.ClockSkew, fault.Attributes{}, fault.Value); ok {
		if ahead, rate, err := fault.ParseSkew(wrong.Spec.Effect.Value); err == nil {
			m.clock.SetSkew(clock.Skew{Since: wrong.Since, Offset: ahead, Rate: rate})
		}
	} else {
		m.clock.ClearSkew()
	}
	m.limits.set(m.faults.Values(fault.ProcessLimit, fault.Attributes{}))
}

// inspect handles an inspection of this process.
func (m *managed) inspect(ctx context.Context, question []byte) ([]byte, error) {
	switch kind, rest, _ := bytes.Cut(question, []byte(" ")); string(kind) {
	case mgmt.QueryMetrics:
		return m.counts.Text(), nil
	case mgmt.QueryHistory:
		return m.historyPage(rest)
	}
	ask := m.report.Load()
	if ask == nil {
		return nil, errors.New("it is not ready")
	}
	return json.Marshal((*ask)(ctx))
}

// historyPage handles a request for a page of this process's history.
func (m *managed) historyPage(place []byte) ([]byte, error) {
	if m.historyDir == "" {
		return nil, errors.New("it writes no history")
	}
	var from history.Position
	if len(place) > 0 {
		if err := json.Unmarshal(place, &from); err != nil {
			return nil, fmt.Errorf("place in a history: %w", err)
		}
	}
	if from.Offset < 0 {
		return nil, fmt.Errorf("place in a history: offset %d: want 0 or more", from.Offset)
	}
	page, err := history.ReadPage(m.historyDir, m.process, from, maxPage)
	if err != nil {
		return nil, err
	}
	page.At = m.clock.Clock().Now()
	return json.Marshal(page)
}

// maxPage is how many bytes of a history one answer contains.
const maxPage = 1 << 20

// observers returns a service's observers: its history, its metrics, and its inspector.
func observers[T any](s service, recorder *history.Recorder) inspect.Observers[T] {
	return inspect.Observers[T]{History: recorder, Metrics: s.managed.counts, Inspect: func(ask func(context.Context) T) {
		requested := func(ctx context.Context) any { return ask(ctx) }
		s.managed.report.Store(&requested)
	}}
}

// inspectFunc returns a function that inspects other processes; nil without a management
// connection.
func inspectFunc(agent *mgmt.Agent) func(ctx context.Context, process string) ([]byte, error) {
	if agent == nil {
		return nil
	}
	return func(ctx context.Context, process string) ([]byte, error) {
		return agent.Client().Inspect(ctx, process, nil)
	}
}

// serve runs a service with its management connection.
func (s service) serve(c *cli.Context, run func(ctx context.Context, agent *mgmt.Agent) error) error {
	return s.watchStalls(c.Context, func(ctx context.Context) error { return s.manage(ctx, c, run) })
}

// watchStalls runs a service and records its stalls, if it has a history.
func (s service) watchStalls(ctx context.Context, run func(context.Context) error) error {
	return daemon.Run(ctx, s.managed.history.Load().WatchStalls, run)
}

// manage runs a service after it has received the fault state. If the bus does not know the
// process's management key, the service runs unmanaged.
func (s service) manage(ctx context.Context, c *cli.Context, run func(ctx context.Context, agent *mgmt.Agent) error) error {
	if c.String("hub") == "" {
		return run(ctx, nil)
	}
	conn, err := s.dial(ctx, c.String("hub"), c.String("keys"), proto.Mgmt(s.managed.process))
	if errors.Is(err, bus.ErrForbidden) {
		s.log.WarnContext(ctx, "no management: the hub does not know this process' key", "process", s.managed.process, "err", err)
		return run(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("management: %w", err)
	}
	defer conn.Close()
	agent := mgmt.NewAgent(mgmt.AgentConfig{
		Process: s.managed.process, Bus: conn, Apply: s.managed.apply, Inspect: s.managed.inspect, Log: s.log,
	})
	return daemon.Run(ctx, agent.Run, func(ctx context.Context) error {
		known, cancel := clock.Clock{}.Timeout(ctx, stateTimeout)
		agent.WaitReady(known)
		cancel()
		return run(ctx, agent)
	})
}

// stateTimeout is how long in wall time a process waits for the fault state before it starts
// without.
const stateTimeout = mgmt.PublishInterval

// processes lets the gateway read all processes' metrics.
type processes struct{ agent *mgmt.Agent }

// Names implements gateway.Processes.
func (p processes) Names() []string {
	return processNames(p.agent.State())
}

// processNames returns the names of the cluster's processes.
func processNames(state mgmt.FaultState) []string {
	var names []string
	for _, member := range state.Members {
		if slices.Contains([]proto.Identity{proto.APIServer, proto.Controllers, proto.Gateway}, proto.Identity(member)) {
			names = append(names, member)
		} else {
			names = append(names, "kubelet/"+member, "runtime/"+member)
		}
	}
	return names
}

// Ask implements gateway.Processes.
func (p processes) Ask(ctx context.Context, process, question string) ([]byte, error) {
	return p.agent.Client().Inspect(ctx, process, []byte(question))
}

// Clock implements gateway.Processes.
func (p processes) Clock() clock.Schedule { return p.agent.State().Clock }

// stateClient returns the client with which controllers set faults and cuts; nil without a
// management connection.
func stateClient(agent *mgmt.Agent) faults.StateStore {
	if agent == nil {
		return nil
	}
	return agent.Client()
}
