package inspect

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// TestShiftKeepsAges: events before or during a clock's skew keep their age in reports.
func TestShiftKeepsAges(t *testing.T) {
	for name, wrong := range map[string]clock.Skew{
		"ahead": {Offset: time.Hour}, "behind": {Offset: -time.Hour}, "fast": {Rate: 1.05}, "slow": {Rate: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				face, err := clock.NewSchedule(time.Now(), 1)
				if err != nil {
					t.Fatal(err)
				}
				movement := clock.NewDriver(face)
				clk := movement.Clock()
				before := clk.Steady()
				time.Sleep(10 * time.Second)
				wrong.Since = clk.Steady()
				movement.SetSkew(wrong)
				during := clk.Steady()
				time.Sleep(10 * time.Second)
				told := func(what string) {
					t.Helper()
					now := clk.Now()
					offset := now.Sub(clk.Steady())
					if a, b := now.Sub(ShiftTime(before, offset)), now.Sub(ShiftTime(during, offset)); a != 20*time.Second || b != 10*time.Second {
						t.Errorf("%s: told %v and %v ago, want 20s and 10s", what, a, b)
					}
				}
				told("wrong")
				movement.ClearSkew()
				told("right again")
				if at := ShiftTime(time.Time{}, time.Hour); !at.IsZero() {
					t.Errorf("what has not happened is told as of %v", at)
				}
			})
		})
	}
}

// TestEveryTimeIsShifted fills in all times of a report. Each must be shifted, none may appear
// where there was none, and the original must not change.
func TestEveryTimeIsShifted(t *testing.T) {
	checkEveryTimeIsShifted[Kubelet](t)
	checkEveryTimeIsShifted[Runtime](t)
	checkEveryTimeIsShifted[Bus](t)
}

func checkEveryTimeIsShifted[T interface{ Shift(offset time.Duration) T }](t *testing.T) {
	t.Helper()
	var none, all T
	forEachTime(reflect.ValueOf(&none).Elem(), func(*time.Time) {})
	at := time.Unix(1_700_000_000, 0)
	forEachTime(reflect.ValueOf(&all).Elem(), func(i *time.Time) {
		at = at.Add(time.Second)
		*i = at
	})
	moved, still := all.Shift(time.Hour), none.Shift(time.Hour)
	at = time.Unix(1_700_000_000, 0)
	forEachTime(reflect.ValueOf(&all).Elem(), func(i *time.Time) {
		at = at.Add(time.Second)
		if !i.Equal(at) {
			t.Errorf("%T: what was told is changed: %+v", all, all)
		}
	})
	forEachTime(reflect.ValueOf(&moved).Elem(), func(i *time.Time) { *i = i.Add(-time.Hour) })
	if r, is := any(&moved).(*Runtime); is { // holds the offset
		r.ClockOffset -= time.Hour
	}
	if !reflect.DeepEqual(moved, all) {
		t.Errorf("%T: moved to %+v, want an hour later than %+v", all, moved, all)
	}
	forEachTime(reflect.ValueOf(&still).Elem(), func(i *time.Time) {
		if !i.IsZero() {
			t.Errorf("%T: what has not happened is told as of %v", still, i)
		}
	})
}

// forEachTime calls with for each time in a value; empty slices get one element.
func forEachTime(v reflect.Value, with func(*time.Time)) {
	instant, is := reflect.TypeAssert[*time.Time](v.Addr())
	switch {
	case is:
		with(instant)
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			forEachTime(field, with)
		}
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			forEachTime(v.Index(i), with)
		}
	}
}
