package simengine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/engine/enginetest"
	"github.com/podfall/podfall/services/runtime/simengine"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, func(*testing.T) engine.Engine { return simengine.New(clock.Clock{}) })
}

// startEngine starts an engine and collects its reports.
func startEngine(t *testing.T) (e *simengine.Engine, reports func() map[string][]engine.Status) {
	t.Helper()
	e = simengine.New(clock.Clock{})
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := map[string][]engine.Status{}, make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(id string, status engine.Status) { seen[id] = append(seen[id], status) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error("run:", err)
		}
	})
	return e, func() map[string][]engine.Status {
		synctest.Wait()
		return seen
	}
}

func load(t *testing.T, e *simengine.Engine, id, script string, events engine.Events) engine.Status {
	t.Helper()
	status, err := e.Load(t.Context(), engine.Container{
		ID: id, Request: &proto.CreateContainerRequest{Name: id, Script: script}, Events: events,
	})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// TestManyContainers: ten thousand containers with different ends end at their times, with one
// goroutine.
func TestManyContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, reports := startEngine(t)
		began := time.Now()
		const many = 10_000
		before := runtime.NumGoroutine()
		for i := range many {
			id := fmt.Sprint(i)
			load(t, e, id, fmt.Sprintf("exits %d after %ds", i%256, i%100), engine.Events{})
			if err := e.Start(t.Context(), id, began); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		const others = 10 // for example the garbage collector's
		if after := runtime.NumGoroutine(); after > before+others {
			t.Errorf("%d goroutines, %d before the containers", after, before)
		}
		time.Sleep(100 * time.Second)
		for i := range many {
			got := reports()[fmt.Sprint(i)]
			last := got[len(got)-1]
			want := began.Add(time.Duration(i%100) * time.Second)
			if last.State != exited || last.ExitCode != int32(i%256) || !last.FinishedAt.Equal(want) {
				t.Fatalf("container %d: %+v, want exit %d at %v", i, last, i%256, want)
			}
			if len(got) > 2 {
				t.Fatalf("container %d was reported %d times", i, len(got))
			}
		}
	})
}

// TestEventsBringTheEndForward: a later event can bring the end forward; the outdated alarm does
// nothing.
func TestEventsBringTheEndForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, reports := startEngine(t)
		load(t, e, "a", "exits 0 after 1h, on TERM exits 9 after 1m", engine.Events{})
		began := time.Now()
		_ = e.Start(t.Context(), "a", began)
		time.Sleep(10 * time.Second)
		_ = e.Signal(t.Context(), "a", engine.SIGTERM, time.Now())
		time.Sleep(5 * time.Second)
		_ = e.Signal(t.Context(), "a", engine.SIGKILL, time.Now())
		time.Sleep(2 * time.Hour)
		got := reports()["a"]
		if len(got) != 2 || got[1].ExitCode != 137 || got[1].FinishedAt.Sub(began) != 15*time.Second {
			t.Errorf("reports: %+v", got)
		}
	})
}

// TestStopSignals: a stop signal of any name works; SIGKILL as stop signal kills, also after a
// restart.
func TestStopSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, reports := startEngine(t)
		began := time.Now()
		for id, row := range map[string]struct {
			signal, script string
			want           int32
		}{
			"usr1":     {"SIGUSR1", "on TERM exits 9", 9},
			"kill":     {"SIGKILL", "on TERM exits 9", 137},
			"survivor": {"SIGKILL", "survives KILL for 1s", 137},
		} {
			req := &proto.CreateContainerRequest{Name: id, Script: row.script, StopSignal: row.signal}
			_, err := e.Load(t.Context(), engine.Container{ID: id, Request: req})
			if err != nil {
				t.Fatal(err)
			}
			_ = e.Start(t.Context(), id, began)
			_ = e.Signal(t.Context(), id, engine.StopSignal(req), began)
			time.Sleep(time.Second)
			again, err := simengine.New(clock.Clock{}).Load(t.Context(), engine.Container{
				ID: id, Request: req, Events: engine.Events{Start: began, Stop: began},
			})
			got := reports()[id]
			if last := got[len(got)-1]; err != nil || last.ExitCode != row.want || last != again {
				t.Errorf("%s: %+v, and after a restart %+v, %v; want exit %d", id, last, again, err, row.want)
			}
			began = time.Now()
		}
	})
}

// TestRemovedIsSilent: a removed container is not reported any more.
func TestRemovedIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, reports := startEngine(t)
		load(t, e, "a", "exits 0 after 1m", engine.Events{})
		_ = e.Start(t.Context(), "a", time.Now())
		time.Sleep(time.Second)
		e.Remove(t.Context(), "a")
		time.Sleep(time.Hour)
		if got := reports()["a"]; len(got) != 1 {
			t.Errorf("reports: %+v", got)
		}
	})
}

// TestClockSetBack: setting the clock back does not undo recorded events.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := time.Now().Add(time.Hour)
		status := load(t, simengine.New(clock.Clock{}), "a", "on TERM exits 0 after 0s",
			engine.Events{Start: later, Stop: later.Add(time.Minute)})
		if status.State != exited {
			t.Errorf("it is %+v", status)
		}
	})
}
