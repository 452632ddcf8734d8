package inspect

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// TestToldAsLongAgo: what has happened before a clock is set wrong, or while it is, is told as long
// ago as it was.
func TestToldAsLongAgo(t *testing.T) {
	for name, wrong := range map[string]clock.Error{
		"ahead": {Ahead: time.Hour}, "behind": {Ahead: -time.Hour}, "fast": {Rate: 1.05}, "slow": {Rate: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				face, err := clock.NewFace(time.Now(), 1)
				if err != nil {
					t.Fatal(err)
				}
				movement := clock.NewMovement(face)
				clk := movement.Clock()
				before := clk.Steady()
				time.Sleep(10 * time.Second)
				wrong.Since = clk.Steady()
				movement.Mislead(wrong)
				during := clk.Steady()
				time.Sleep(10 * time.Second)
				told := func(what string) {
					t.Helper()
					now := clk.Now()
					ahead := now.Sub(clk.Steady())
					if a, b := now.Sub(Moved(before, ahead)), now.Sub(Moved(during, ahead)); a != 20*time.Second || b != 10*time.Second {
						t.Errorf("%s: told %v and %v ago, want 20s and 10s", what, a, b)
					}
				}
				told("wrong")
				movement.Right()
				told("right again")
				if at := Moved(time.Time{}, time.Hour); !at.IsZero() {
					t.Errorf("what has not happened is told as of %v", at)
				}
			})
		})
	}
}

// TestMovedTimes moves each of a container's times, and none that it does not have.
func TestMovedTimes(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	got := Times{Started: at, Signaled: at.Add(1), Killed: at.Add(2)}.Moved(time.Hour)
	if want := (Times{Started: at.Add(time.Hour), Signaled: at.Add(time.Hour + 1), Killed: at.Add(time.Hour + 2)}); got != want {
		t.Errorf("moved to %+v, want %+v", got, want)
	}
}
