package faultstate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	carrier "github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/bus/faultstate"
)

// harness runs a hub and a Keeper.
type harness struct {
	t      *testing.T
	hub    *carrier.Server
	file   string
	clock  clock.Clock
	stop   func()
	client *mgmt.Client
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	hub, err := carrier.StartServer(t.Context(), carrier.ServerConfig{Port: carrier.InProcessOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	p := &harness{t: t, hub: hub, file: filepath.Join(t.TempDir(), "run", "board.json")}
	p.client = mgmt.NewClient(p.dial(proto.Admin))
	p.start("first")
	return p
}

func (p *harness) dial(id proto.Identity) *carrier.Conn {
	p.t.Helper()
	conn, err := carrier.Dial(p.t.Context(), carrier.Config{InProcess: p.hub.InProcessConn, Identity: id})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(conn.Close)
	return conn
}

// run runs do until stop or the end of the test.
func (p *harness) run(do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			p.t.Errorf("ended: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	p.t.Cleanup(stop)
	return stop
}

// start starts a new Keeper.
func (p *harness) start(epoch string) {
	p.t.Helper()
	schedule, err := clock.NewSchedule(time.Now(), 1)
	if err != nil {
		p.t.Fatal(err)
	}
	keeper, err := faultstate.Open(p.t.Context(), faultstate.Config{
		Bus: p.dial(mgmt.Keeper), File: p.file, Epoch: epoch, Schedule: schedule, Clock: p.clock, Members: partition.Members([]string{"node-1"}), Apply: func(mgmt.FaultState) {},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	ready := make(chan struct{})
	p.stop = p.run(func(ctx context.Context) error { return keeper.Run(ctx, func() { close(ready) }) })
	<-ready
}

func (p *harness) set(change mgmt.Change) {
	p.t.Helper()
	if _, err := p.client.Set(p.t.Context(), change); err != nil {
		p.t.Fatal(err)
	}
}

func addFault(name string, d time.Duration) mgmt.Change {
	return mgmt.Change{AddFault: &mgmt.AddFault{Name: name, Spec: fault.Spec{
		Point: fault.VolumeMount, Effect: fault.Effect{Kind: fault.Hang}, Duration: metav1.Duration{Duration: d},
	}}}
}

// TestProcessFollowsState: a process gets the state at its start, each change at once, the end of
// each entry, and the whole state again after the keeper was killed.
func TestProcessFollowsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		p.set(addFault("before", 0))
		var mu sync.Mutex
		var seen []string
		agent := mgmt.NewAgent(mgmt.AgentConfig{Process: "kubelet/node-1", Bus: p.dial(proto.Mgmt("kubelet/node-1")), Apply: func(b mgmt.FaultState) {
			mu.Lock()
			defer mu.Unlock()
			var names []string
			for _, f := range b.Faults {
				names = append(names, f.Name)
			}
			seen = append(seen, strings.Join(names, "+"))
		}})
		p.run(agent.Run)
		agent.WaitReady(t.Context())
		p.set(addFault("short", time.Minute))
		p.stop()
		p.start("second")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		got := strings.Join(seen, ", ")
		if !strings.HasPrefix(got, "before, before+short, ") || !strings.HasSuffix(got, ", before") {
			t.Errorf("the process has seen %q", got)
		}
	})
}

// TestALeaseEndsWithItsHolder: a cut ends after its term if its lease is not renewed.
func TestALeaseEndsWithItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		p.set(mgmt.Change{Cut: &mgmt.AddCut{Name: "c", Holder: "me", Spec: partition.Spec{Members: []string{"node-1"}}}})
		for range 5 {
			time.Sleep(mgmt.LeaseDuration / 2)
			p.set(mgmt.Change{Renew: "c"})
		}
		if now, err := p.client.Get(t.Context()); err != nil || len(now.Cuts) != 1 {
			t.Errorf("renewed, and the cuts are %v, %v", now.Cuts, err)
		}
		time.Sleep(mgmt.LeaseDuration + time.Millisecond)
		if now, err := p.client.Get(t.Context()); err != nil || len(now.Cuts) != 0 {
			t.Errorf("not renewed, and the cuts are %v, %v", now.Cuts, err)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		if _, err := p.client.Set(t.Context(), addFault("A", 0)); !errors.Is(err, mgmt.ErrRefused) || !strings.Contains(err.Error(), "metadata.name") {
			t.Errorf("a bad name: %v", err)
		}
		if _, err := p.client.Set(t.Context(), mgmt.Change{Heal: &mgmt.Selection{Names: []string{"x"}}}); !errors.Is(err, mgmt.ErrNotFound) {
			t.Errorf("a cut that there is not: %v", err)
		}
	})
}

// TestTheMachinesClockIsSet: entries end by the cluster's clock, even if the machine's clock is set
// back and the saved schedule then reads less.
func TestTheMachinesClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		p.stop()
		schedule, err := clock.NewSchedule(time.Now().Add(-time.Hour), 2)
		if err != nil {
			t.Fatal(err)
		}
		p.clock = clock.NewDriver(schedule).Clock() // is an hour ahead by now
		p.start("second")
		p.set(addFault("short", time.Minute))
		time.Sleep(time.Minute)
		synctest.Wait()
		if now, err := p.client.Get(t.Context()); err != nil || len(now.Faults) != 0 {
			t.Errorf("a minute later the faults are %v, %v", now.Faults, err)
		}
	})
}

// TestFullState: a full state takes no more entries, and can still be read and reduced.
func TestFullState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		long := addFault("first", 0)
		long.AddFault.Spec.Effect = fault.Effect{Kind: fault.Error, Message: strings.Repeat("x", 600_000)}
		p.set(long)
		long.AddFault.Name = "second"
		if _, err := p.client.Set(t.Context(), long); !errors.Is(err, mgmt.ErrRefused) || !strings.Contains(err.Error(), "want at most 1048576") {
			t.Errorf("more than there is room for: %v", err)
		}
		time.Sleep(2 * mgmt.PublishInterval)
		p.set(mgmt.Change{ClearFaults: &mgmt.Selection{All: true}})
		p.set(long)
	})
}

// TestTheFile: only its owner may read the file, and a damaged file causes no faults.
func TestTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		p.set(addFault("kept", 0))
		if info, err := os.Stat(p.file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file: %v, %v", info, err)
		}
		p.stop()
		if err := os.WriteFile(p.file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.start("second")
		if now, err := p.client.Get(t.Context()); err != nil || len(now.Faults) != 0 || now.Epoch != "second" {
			t.Errorf("after the damage the board is %+v, %v", now, err)
		}
	})
}

// TestTelemetry: inspection requests are answered.
func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHarness(t)
		agent := mgmt.NewAgent(mgmt.AgentConfig{
			Process: "runtime/node-1", Bus: p.dial(proto.Mgmt("runtime/node-1")),
			Inspect: func(_ context.Context, question []byte) ([]byte, error) {
				if len(question) == 0 {
					return nil, errors.New("ask something")
				}
				return append([]byte("you asked "), question...), nil
			},
		})
		p.run(agent.Run)
		agent.WaitReady(t.Context())
		if got, err := p.client.Inspect(t.Context(), "runtime/node-1", []byte("this")); err != nil || string(got) != "you asked this" {
			t.Errorf("Inspect: %q, %v", got, err)
		}
		if _, err := p.client.Inspect(t.Context(), "runtime/node-1", nil); err == nil || !strings.Contains(err.Error(), "ask something") {
			t.Errorf("Inspect: %v", err)
		}
		if _, err := p.client.Inspect(t.Context(), "runtime/node-9", nil); !errors.Is(err, carrier.ErrNoResponder) {
			t.Errorf("a process that does not run: %v", err)
		}
	})
}
