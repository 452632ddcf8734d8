package clock

import (
	"testing"
	"time"
)

// testSkews are clocks that are set wrong, or run at a wrong speed.
var testSkews = map[string]Skew{
	"ahead": {Offset: time.Hour}, "behind": {Offset: -time.Hour}, "fast": {Rate: 1.05}, "slow": {Rate: 0.5},
}

// TestSkewKeepsWaits sets a clock wrong in the middle of a minute's wait, and right again before
// its end.
func TestSkewKeepsWaits(t *testing.T) {
	for name, skew := range testSkews {
		for kind, wait := range waitFuncs {
			t.Run(name+" "+kind, func(t *testing.T) {
				runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
					took := make(chan time.Duration, 1)
					go func() { took <- wait(t, clk) }()
					time.Sleep(30 * time.Second)
					skew.Since = clk.Steady()
					m.SetSkew(skew)
					time.Sleep(20 * time.Second)
					m.ClearSkew()
					if got := <-took; got != time.Minute {
						t.Errorf("a minute took %v of the wall", got)
					}
				})
			})
		}
	}
}

// TestSkewKeepsNewWaits begins to wait while the clock is wrong.
func TestSkewKeepsNewWaits(t *testing.T) {
	for name, skew := range testSkews {
		for kind, wait := range waitFuncs {
			t.Run(name+" "+kind, func(t *testing.T) {
				runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
					skew.Since = clk.Steady()
					m.SetSkew(skew)
					if got := wait(t, clk); got != time.Minute {
						t.Errorf("a minute took %v of the wall", got)
					}
				})
			})
		}
	}
}

// TestSkewChangesReadings checks readings before, during and after a skew, with a step of the
// cluster's clock in it.
func TestSkewChangesReadings(t *testing.T) {
	for name, want := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour, "fast": 500 * time.Millisecond, "slow": -5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(t *testing.T, m *Driver, clk Clock) {
				begin := clk.Now()
				skew := testSkews[name]
				skew.Since = begin.Add(5 * time.Second)
				time.Sleep(6 * time.Second)
				for range 2 { // every fault state sets it again
					m.SetSkew(skew)
				}
				m.step(t, 9*time.Second)
				read := clk.Now()
				if got := read.Sub(clk.Steady()); got != want || clk.Steady().Sub(begin) != 15*time.Second {
					t.Errorf("it is %v ahead, want %v", got, want)
				}
				m.ClearSkew()
				m.ClearSkew()
				time.Sleep(time.Second)
				if got := clk.Since(begin); got != 16*time.Second {
					t.Errorf("once it is right, it shows %v", got)
				}
				if was, before := clk.ApplySkew(begin.Add(14*time.Second)), clk.ApplySkew(begin); was.Sub(begin) < 14*time.Second+want-time.Second || was.Sub(begin) > 14*time.Second+want+time.Second || !before.Equal(begin) {
					t.Errorf("it read %v, and at the begin %v", was.Sub(begin), before.Sub(begin))
				}
				if len(m.loadSkews()) != 2 {
					t.Errorf("%d errors are remembered, want 2", len(m.loadSkews()))
				}
			})
		})
	}
}
