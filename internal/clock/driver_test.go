package clock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// runInBubble runs a test in a bubble with a driver at speed 1.
func runInBubble(t *testing.T, run func(t *testing.T, m *Driver, clk Clock)) {
	synctest.Test(t, func(t *testing.T) {
		f, err := NewSchedule(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		m := NewDriver(f)
		run(t, m, m.Clock())
	})
}

func (m *Driver) speed(t *testing.T, speed float64) {
	t.Helper()
	if err := m.Change(func(f Schedule, now time.Time) (Schedule, error) { return f.WithSpeed(now, speed) }); err != nil {
		t.Fatal(err)
	}
}

func (m *Driver) step(t *testing.T, d time.Duration) {
	t.Helper()
	if err := m.Change(func(f Schedule, now time.Time) (Schedule, error) { return f.WithStep(now, d) }); err != nil {
		t.Fatal(err)
	}
}

func (m *Driver) pause() {
	_ = m.Change(func(f Schedule, now time.Time) (Schedule, error) { return f.WithPause(now), nil })
}

func (m *Driver) resume() {
	_ = m.Change(func(f Schedule, now time.Time) (Schedule, error) { return f.WithResume(now), nil })
}

// waitFuncs are all ways to wait for a minute; each returns the wall time it took.
var waitFuncs = map[string]func(t *testing.T, clk Clock) time.Duration{
	"timer": func(_ *testing.T, clk Clock) time.Duration {
		begin := time.Now()
		<-clk.Timer(time.Minute).C
		return time.Since(begin)
	},
	"timer that is reset": func(_ *testing.T, clk Clock) time.Duration {
		begin := time.Now()
		timer := clk.Timer(time.Hour)
		timer.Reset(time.Minute)
		<-timer.C
		return time.Since(begin)
	},
	"ticker": func(_ *testing.T, clk Clock) time.Duration {
		begin := time.Now()
		ticker := clk.Ticker(20 * time.Second)
		defer ticker.Stop()
		for range 3 {
			<-ticker.C
		}
		return time.Since(begin)
	},
	"sleep": func(t *testing.T, clk Clock) time.Duration {
		begin := time.Now()
		if err := clk.Sleep(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		return time.Since(begin)
	},
	"timeout": func(t *testing.T, clk Clock) time.Duration {
		begin := time.Now()
		ctx, cancel := clk.Timeout(t.Context(), time.Minute)
		defer cancel()
		<-ctx.Done()
		return time.Since(begin)
	},
}

// TestWaitsAreRearmed changes the clock in the middle of a minute's wait.
func TestWaitsAreRearmed(t *testing.T) {
	for name, row := range map[string]struct {
		move func(t *testing.T, m *Driver)
		want time.Duration
	}{
		"left alone": {func(*testing.T, *Driver) {}, time.Minute},
		"faster":     {func(t *testing.T, m *Driver) { m.speed(t, 60) }, 30*time.Second + 500*time.Millisecond},
		"slower":     {func(t *testing.T, m *Driver) { m.speed(t, 0.5) }, 90 * time.Second},
		"paused for an hour": {func(_ *testing.T, m *Driver) {
			m.pause()
			time.Sleep(time.Hour)
			m.resume()
		}, time.Hour + time.Minute},
		"stepped": {func(t *testing.T, m *Driver) { m.step(t, 10*time.Second) }, 50 * time.Second},
		"there and back": {func(t *testing.T, m *Driver) {
			m.speed(t, 10)
			time.Sleep(time.Second)
			m.speed(t, 1)
		}, 51 * time.Second},
	} {
		for kind, wait := range waitFuncs {
			t.Run(name+" "+kind, func(t *testing.T) {
				runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
					took := make(chan time.Duration, 1)
					go func() { took <- wait(t, clk) }()
					time.Sleep(30 * time.Second)
					row.move(t, m)
					if got := <-took; got != row.want {
						t.Errorf("a minute took %v of the wall, want %v", got, row.want)
					}
				})
			})
		}
	}
}

// TestAStepFiresInOrder passes alarms that were added in another order.
func TestAStepFiresInOrder(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, _ Clock) {
		var rung []string
		for _, name := range []string{"5s", "3m", "1m", "2h", "90s"} {
			d, _ := time.ParseDuration(name)
			m.addAfter(d, alarm{callback: func() { rung = append(rung, name) }})
		}
		m.step(t, 10*time.Minute)
		synctest.Wait()
		if want := []string{"5s", "1m", "90s", "3m"}; !slices.Equal(rung, want) {
			t.Errorf("rung %v, want %v", rung, want)
		}
	})
}

// TestAChangeAhead gives two drivers a schedule with a future segment. They agree throughout,
// although the second learns of it late.
func TestAChangeAhead(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
		late := NewDriver(m.Schedule())
		next, err := m.Schedule().WithSpeed(time.Now().Add(100*time.Millisecond), 60)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		timer := clk.Timer(30 * time.Second)
		m.Set(next)
		time.Sleep(90 * time.Millisecond)
		late.Set(next)
		<-timer.C
		if got, want := time.Since(begin), 100*time.Millisecond+498333334; got != want {
			t.Errorf("30 s took %v, want %v", got, want)
		}
		if a, b := clk.Now(), late.Clock().Now(); !a.Equal(b) {
			t.Errorf("one shows %v, the other %v", a, b)
		}
	})
}

// TestNothingGoesBack slows a clock down by a late change.
func TestNothingGoesBack(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
		m.speed(t, 100)
		next, err := m.Schedule().WithSpeed(time.Now(), 1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := clk.Now()
		timer := clk.Timer(time.Second)
		m.Set(next)
		begin := time.Now()
		if !clk.Now().Equal(before) {
			t.Errorf("it has gone back by %v", before.Sub(clk.Now()))
		}
		<-timer.C // 99 s until the schedule has caught up, and then one
		if got := time.Since(begin); got != 100*time.Second {
			t.Errorf("a second took %v, want 1m40s", got)
		}
	})
}

// TestTheFirstChange replaces the initial schedule by one that was paused long ago.
func TestTheFirstChange(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
		begin := time.Now()
		time.Sleep(time.Hour)
		m.Set(m.Schedule().WithPause(begin))
		if got := clk.Since(begin); got != 0 {
			t.Errorf("it shows %v after it was paused, want nothing", got)
		}
	})
}

func TestTimersStop(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
		timer := clk.Timer(time.Second)
		if !timer.Stop() || timer.Stop() {
			t.Error("Stop: want true, and then false")
		}
		fired := clk.Timer(time.Second)
		time.Sleep(2 * time.Second)
		if !fired.Stop() {
			t.Error("Stop of a timer whose firing nobody has heard: want true")
		}
		select {
		case <-fired.C:
			t.Error("a timer that was stopped has fired")
		default:
		}
		if fired.Reset(time.Second) {
			t.Error("Reset of a timer that was stopped: want false")
		}
		<-fired.C
		if len(m.alarms) != 0 {
			t.Errorf("%d alarms are left", len(m.alarms))
		}
	})
}

// TestATickerSkipsTicks steps over many ticks, of which one is delivered.
func TestATickerSkipsTicks(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
		begin := clk.Now()
		ticker := clk.Ticker(10 * time.Second)
		defer ticker.Stop()
		m.step(t, 95*time.Second)
		for _, want := range []time.Duration{95 * time.Second, 100 * time.Second, 110 * time.Second} {
			if got := (<-ticker.C).Sub(begin); got != want {
				t.Errorf("ticked at %v, want %v", got, want)
			}
		}
	})
}

// TestATimeoutIsAContext compares a timeout with package context's own, and derived contexts too.
func TestATimeoutIsAContext(t *testing.T) {
	errBecause := errors.New("because")
	type key struct{}
	for name, row := range map[string]struct {
		end         func(parent context.CancelCauseFunc, own context.CancelFunc)
		want, cause error
	}{
		"time":   {func(context.CancelCauseFunc, context.CancelFunc) { time.Sleep(time.Hour) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"parent": {func(parent context.CancelCauseFunc, _ context.CancelFunc) { parent(errBecause) }, context.Canceled, errBecause},
		"cancel": {func(_ context.CancelCauseFunc, own context.CancelFunc) { own() }, context.Canceled, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
				for clk, moved := range map[Clock]string{clk: "moved", {}: "wall"} {
					parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					ctx, cancel := clk.Timeout(parent, time.Minute)
					if left, ok := ctx.Deadline(); !ok || time.Until(left) != time.Minute {
						t.Errorf("%s: deadline in %v, %t", moved, time.Until(left), ok)
					}
					heir, stop := context.WithCancel(context.WithValue(ctx, key{}, "own"))
					row.end(end, cancel)
					synctest.Wait()
					for who, ctx := range map[string]context.Context{"it": ctx, "its heir": heir} {
						select {
						case <-ctx.Done():
						default:
							t.Errorf("%s: %s goes on", moved, who)
						}
						if ctx.Err() != row.want || context.Cause(ctx) != row.cause { //nolint:errorlint // the very errors
							t.Errorf("%s: %s has ended with %v because of %v, want %v because of %v", moved, who, ctx.Err(), context.Cause(ctx), row.want, row.cause)
						}
					}
					if ctx.Value(key{}) != "value" || heir.Value(key{}) != "own" {
						t.Errorf("%s: values are lost", moved)
					}
					stop()
					cancel()
					end(nil)
				}
				if len(m.alarms) != 0 {
					t.Errorf("%d alarms are left", len(m.alarms))
				}
			})
		})
	}
}

// TestADeadlineMoves reads a timeout's deadline while the clock changes.
func TestADeadlineMoves(t *testing.T) {
	runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
		ctx, cancel := clk.Timeout(t.Context(), time.Minute)
		defer cancel()
		detached := context.WithoutCancel(ctx)
		m.speed(t, 60)
		if end, ok := ctx.Deadline(); !ok || time.Until(end) != time.Second {
			t.Errorf("at speed 60 it ends in %v, %t; want 1s", time.Until(end), ok)
		}
		m.pause()
		if end, ok := ctx.Deadline(); ok {
			t.Errorf("while paused it ends in %v, want no end", time.Until(end))
		}
		if _, ok := detached.Deadline(); ok {
			t.Error("a context without its cancel has its deadline")
		}
	})
}

func TestATickerOfNothing(t *testing.T) {
	runInBubble(t, func(t *testing.T, _ *Driver, clk Clock) {
		defer func() {
			if said, _ := recover().(string); !strings.Contains(said, "not positive") {
				t.Errorf("panic: %v", said)
			}
		}()
		clk.Ticker(0)
	})
}

func BenchmarkClocks(b *testing.B) {
	f, err := NewSchedule(time.Now(), 60)
	if err != nil {
		b.Fatal(err)
	}
	for name, clk := range map[string]Clock{"wall": {}, "moved": NewDriver(f).Clock()} {
		b.Run(name+"/now", func(b *testing.B) {
			for b.Loop() {
				clk.Now()
			}
		})
		b.Run(name+"/timer", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				clk.Timer(time.Hour).Stop()
			}
		})
		b.Run(name+"/timeout", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, cancel := clk.Timeout(b.Context(), time.Hour)
				cancel()
			}
		})
	}
}
