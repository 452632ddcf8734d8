package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// regression is a recorded run that once failed.
type regression struct {
	// Broke names what it violates if the bug returns.
	Broke  string   `json:"broke"`
	Story  []string `json:"story"`
	Script Script   `json:"script"`
}

const regressions = "testdata/regressions"

// runAndJudge returns a function that runs a script and judges the run.
func runAndJudge(t *testing.T) func(Script) error {
	t.Helper()
	return func(script Script) error {
		_, err := Judge(runInBubble(t, script))
		return err
	}
}

// shrinkToRegression shrinks a failed run and writes its story.
func shrinkToRegression(t *testing.T, result Result, broken error) regression {
	t.Helper()
	const most = 300
	small, lives := Shrink(result, broken, most, runAndJudge(t))
	err := runAndJudge(t)(small)
	story := Story(small, err)
	t.Logf("seed %d in short, after %d runs:\n%s", small.Seed, lives, strings.Join(story, "\n"))
	return regression{ViolationName(err), story, small}
}

// saveRegression saves a run for TestRegressions.
func saveRegression(t *testing.T, r regression) {
	t.Helper()
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(regressions, fmt.Sprintf("%s-seed-%d.json", strings.ToLower(r.Broke), r.Script.Seed))
	if err := errors.Join(os.MkdirAll(regressions, 0o750), os.WriteFile(file, append(data, '\n'), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Logf("kept as %s", file)
}

// TestReplay runs one seed, and tells the story of a violation. The recorded script must be the
// same run.
func TestReplay(t *testing.T) {
	result, hash := runHashed(t, scriptOfSeed(*seed))
	results, err := Judge(result)
	defer t.Logf("%d steps, %d events, %d deviations, hash %s", result.Steps, len(result.Log.Events), len(result.Deviations), hash)
	for _, verdict := range verdicts(results) {
		t.Log(verdict)
	}
	if *out != "" {
		if err := result.Log.Write(filepath.Join(*out, "history")); err != nil {
			t.Error(err)
		}
		t.Logf("what was written down: podfall verify %s, podfall report %s", *out, *out)
	}
	if err != nil {
		t.Error(err)
		saveRegression(t, shrinkToRegression(t, result, err))
		return
	}
	for _, action := range result.Script.Actions {
		t.Log(action)
	}
	if _, again := runHashed(t, recordedScript(result)); again != hash {
		t.Errorf("the recorded script is another run, of hash %s", again)
	}
}

// TestRecordedHistory judges a run's history as read from files, in the order of the files, and
// wants the same verdicts.
func TestRecordedHistory(t *testing.T) {
	result := runInBubble(t, Draw(*seed, modeOf(*seed), 20*time.Minute))
	here, err := Judge(result)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := result.Log.Write(dir); err != nil {
		t.Fatal(err)
	}
	if result.Log, err = history.Read(dir); err != nil {
		t.Fatal(err)
	}
	there, err := Judge(result)
	if diff := cmp.Diff(verdicts(here), verdicts(there)); diff != "" || err != nil {
		t.Errorf("%v; (-as it was lived +as it was read)\n%s", err, diff)
	}
	result.Store = nil // as podfall verify has it, which finds no database
	if _, err := Judge(result); err != nil {
		t.Error(err)
	}
}

// verdicts returns a line for each guarantee.
func verdicts(results []guarantees.Result) []string {
	var lines []string
	for _, r := range results {
		lines = append(lines, fmt.Sprintf("%s %s, %d cases", r.ID, r.Verdict, r.Cases))
	}
	return lines
}

// TestRegressions runs the recorded regressions. Each must still have cases of what it once
// violated.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(regressions, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var kept regression
			if err := json.Unmarshal(data, &kept); err != nil {
				t.Fatal(err)
			}
			result := runInBubble(t, kept.Script)
			results, broken := Judge(result)
			if broken != nil {
				t.Errorf("it breaks %s again, which was %s: %v\n%s", ViolationName(broken), kept.Broke, broken, strings.Join(kept.Story, "\n"))
			}
			if casesOf(kept.Broke, result, results) == 0 {
				t.Errorf("it meets no case of %s any more: it proves nothing", kept.Broke)
			}
		})
	}
}

// casesOf returns how often a run has a case of what was once violated: a guarantee, or a status
// for a wrong final state; 0 for unknown names.
func casesOf(broke string, result Result, results []guarantees.Result) int {
	if i := slices.IndexFunc(results, func(r guarantees.Result) bool { return r.ID == broke }); i >= 0 {
		return results[i].Cases
	}
	resource := map[string]string{"replicas": "replicasets.apps", "rollouts": "deployments.apps", "jobs": "jobs.batch", "cronjobs": "cronjobs.batch"}[broke]
	written := 0
	for _, e := range result.Log.Events {
		if c, ok := e.Fact.(history.Commit); ok && c.Resource == resource {
			written++
		}
	}
	return written
}

// TestMinimise checks that minimise leaves what is needed, and nothing else.
func TestMinimise(t *testing.T) {
	all := make([]int, 100)
	for i := range all {
		all[i] = i
	}
	tries := 0
	got := minimise(all, func(part []int) bool {
		tries++
		return slices.Contains(part, 7) && slices.Contains(part, 61) && slices.Contains(part, 62)
	})
	if !slices.Equal(got, []int{7, 61, 62}) || tries > 100 {
		t.Errorf("%v in %d tries, want 7, 61 and 62 in at most 100", got, tries)
	}
	if none := minimise(all, func([]int) bool { return true }); len(none) != 0 {
		t.Errorf("%v is left of what is not needed", none)
	}
}

// TestShortenWithAWrongClock has a violation whose clock is a day behind. The shortened run still
// ends soon after the violation.
func TestShortenWithAWrongClock(t *testing.T) {
	const seen = 20 * time.Minute
	start := time.Unix(0, 0)
	begin := history.Event{Wall: start}
	late := history.Event{Began: int64(seen), Ended: int64(seen), Wall: start.Add(seen - 24*time.Hour)}
	broken := &guarantees.ViolationError{ID: "A8", Counterexample: guarantees.Counterexample{Events: []history.Event{late}}}
	var lasted []time.Duration
	result := Result{Script: Script{Duration: time.Hour}, Log: history.Log{Events: []history.Event{begin, late}}}
	Shrink(result, broken, 10, func(script Script) error {
		lasted = append(lasted, script.Duration)
		return broken
	})
	if want := []time.Duration{time.Hour, seen + 5*time.Second}; len(lasted) < 2 || !slices.Equal(lasted[:2], want) {
		t.Errorf("runs of %v, want them to begin with %v", lasted, want)
	}
}
