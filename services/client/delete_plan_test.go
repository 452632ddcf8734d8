package client

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestPlanDeleteGrace is CLI-02 and CLI-03 as a table: every combination of the flags.
func TestPlanDeleteGrace(t *testing.T) {
	const none, refused = "none", "refused"
	for _, c := range []struct {
		grace int
		now   bool
		force bool
		want  string
	}{
		{-1, false, false, none},
		{-1, true, false, "1"},
		{-1, false, true, "0"},
		{-1, true, true, refused},
		{-5, false, false, none},
		{-5, true, false, refused},
		{-5, false, true, "0"},
		{0, false, false, "1"},
		{0, true, false, refused},
		{0, false, true, "0"},
		{1, false, false, "1"},
		{1, true, false, refused},
		{1, false, true, refused},
		{60, false, false, "60"},
		{60, true, false, refused},
		{60, false, true, refused},
	} {
		plan, err := planDelete(deleteFlags{grace: c.grace, now: c.now, force: c.force, cascade: "background"})
		got := none
		switch {
		case err != nil:
			got = refused
		case plan.options.GracePeriodSeconds != nil:
			got = fmt.Sprint(*plan.options.GracePeriodSeconds)
		}
		if got != c.want {
			t.Errorf("--grace-period=%d --now=%t --force=%t: %s, want %s", c.grace, c.now, c.force, got, c.want)
		}
		if plan.force != (got == "0") {
			t.Errorf("--grace-period=%d --now=%t --force=%t: said to be forced: %t", c.grace, c.now, c.force, plan.force)
		}
	}
}

// TestPlanDeleteNeverForcesUnasked: whatever is typed, grace 0 needs --force.
func TestPlanDeleteNeverForcesUnasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan, err := planDelete(deleteFlags{
			grace:   rapid.IntRange(-100, 100).Draw(t, "grace"),
			now:     rapid.Bool().Draw(t, "now"),
			cascade: rapid.SampledFrom([]string{"background", "foreground", "orphan", "true", "0"}).Draw(t, "cascade"),
		})
		if err != nil {
			return
		}
		if grace := plan.options.GracePeriodSeconds; grace != nil && *grace <= 0 {
			t.Fatalf("grace %d without --force", *grace)
		}
		if plan.options.PropagationPolicy == nil {
			t.Fatal("no propagation policy")
		}
	})
}
