package simengine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/services/runtime/simengine"
)

func exit(code int32, after time.Duration, reason string) *simengine.Exit {
	return &simengine.Exit{Code: code, After: after, Reason: reason}
}

func TestParse(t *testing.T) {
	usual := exit(0, time.Second, "Completed")
	for text, want := range map[string]simengine.Script{
		"":                                simengine.Default(),
		"  \n":                            simengine.Default(),
		"on TERM exits 0 after 1s":        simengine.Default(),
		"on TERM exits 143 after 1m30s":   {OnTerm: exit(143, 90*time.Second, "Error")},
		"on TERM exits 255":               {OnTerm: exit(255, 0, "Error")},
		"ignores TERM":                    {},
		"  ignores   TERM  ":              {},
		"exits 0 after 2s":                {OnTerm: usual, OwnExit: exit(0, 2*time.Second, "Completed")},
		"exits 1":                         {OnTerm: usual, OwnExit: exit(1, 0, "Error")},
		"OOM after 5s":                    {OnTerm: usual, OwnExit: exit(137, 5*time.Second, "OOMKilled")},
		"starts after 20s":                {OnTerm: usual, StartAfter: 20 * time.Second},
		"fails to start":                  {OnTerm: usual, FailsToStart: true},
		"starts after 1s, fails to start": {OnTerm: usual, StartAfter: time.Second, FailsToStart: true},
		"survives KILL":                   {OnTerm: usual, SurvivesKill: true},
		"survives KILL for 5m":            {OnTerm: usual, SurvivesKill: true, KillTakes: 5 * time.Minute},
		"stop hangs":                      {OnTerm: usual, StopHangs: true},
		"ignores TERM,survives KILL,exits 3 after 1h,starts after 1ms,stop hangs": {
			SurvivesKill: true, OwnExit: exit(3, time.Hour, "Error"), StartAfter: time.Millisecond, StopHangs: true,
		},
	} {
		got, err := simengine.Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		again, err := simengine.Parse(got.String())
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Errorf("%q, printed as %q: %v\n%s", text, got.String(), err, diff)
		}
	}
}

// TestParseErrors: each error names the invalid clause and the reason.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]struct{ clause, reason string }{
		",":                                    {"", "it is empty"},
		"ignores TERM,":                        {"", "it is empty"},
		"ignores TERM, dances":                 {"dances", "want on TERM exits N after D"},
		"Ignores TERM":                         {"Ignores TERM", "want on TERM exits N after D"},
		"ignores HUP":                          {"ignores HUP", "want on TERM exits N after D"},
		"ignores TERM twice":                   {"ignores TERM twice", `"twice" is one word too many`},
		"exits":                                {"exits", "want an exit code"},
		"exits 256":                            {"exits 256", `exit code "256": want 0 to 255`},
		"exits -1":                             {"exits -1", `exit code "-1": want 0 to 255`},
		"exits zero after 1s":                  {"exits zero after 1s", `exit code "zero": want 0 to 255`},
		"exits 0 after":                        {"exits 0 after", "want after and a duration"},
		"exits 0 in 5s":                        {"exits 0 in 5s", "want after and a duration"},
		"exits 0 after 5":                      {"exits 0 after 5", `duration "5": want one from 0s to`},
		"exits 0 after -5s":                    {"exits 0 after -5s", `duration "-5s": want one from 0s to`},
		"exits 0 after 999999999h":             {"exits 0 after 999999999h", `duration "999999999h": want one from 0s to`},
		"exits 0 after 1000000h":               {"exits 0 after 1000000h", `duration "1000000h": want one from 0s to`},
		"exits 0 after 5s please":              {"exits 0 after 5s please", `"please" is one word too many`},
		"starts":                               {"starts", "want after and a duration"},
		"OOM":                                  {"OOM", "want after and a duration"},
		"survives KILL after 5s":               {"survives KILL after 5s", "want for and a duration"},
		"survives KILL for 0s":                 {"survives KILL for 0s", "want a longer one"},
		"ignores TERM, on TERM exits 0":        {"on TERM exits 0", `"ignores TERM" has already said something about TERM`},
		"exits 0 after 1s, OOM after 2s":       {"OOM after 2s", `"exits 0 after 1s" has already said something about its own end`},
		"stop hangs, ignores TERM, stop hangs": {"stop hangs", `"stop hangs" has already said something about stop`},
	} {
		_, err := simengine.Parse(text)
		var clause *simengine.ClauseError
		if !errors.As(err, &clause) {
			t.Errorf("%q: %v, want a ClauseError", text, err)
			continue
		}
		if clause.Clause != want.clause || !strings.Contains(clause.Reason, want.reason) {
			t.Errorf("%q: clause %q: %s\nwant %q: %s", text, clause.Clause, clause.Reason, want.clause, want.reason)
		}
	}
}

// FuzzParse: accepted scripts round-trip through String, and errors quote a clause of the text.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		script, err := simengine.Parse(text)
		if err != nil {
			var clause *simengine.ClauseError
			if !errors.As(err, &clause) || !strings.Contains(text, clause.Clause) || clause.Reason == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := simengine.Parse(script.String())
		if diff := cmp.Diff(script, again); diff != "" || err != nil {
			t.Fatalf("%q, printed as %q: %v\n%s", text, script.String(), err, diff)
		}
	})
}
