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

// regression is a life that has shown a mistake.
type regression struct {
	// Broke is what it breaks when the mistake is there again.
	Broke  string   `json:"broke"`
	Story  []string `json:"story"`
	Script Script   `json:"script"`
}

const regressions = "testdata/regressions"

// judged plays a script and judges it.
func judged(t *testing.T) func(Script) error {
	t.Helper()
	return func(script Script) error {
		_, err := Judge(liveIn(t, script))
		return err
	}
}

// tell shrinks a life that broke something, and tells its story.
func tell(t *testing.T, lived Lived, broken error) regression {
	t.Helper()
	const most = 300
	small, lives := Shrink(lived, broken, most, judged(t))
	err := judged(t)(small)
	story := Story(small, err)
	t.Logf("seed %d in short, after %d lives:\n%s", small.Seed, lives, strings.Join(story, "\n"))
	return regression{Broke(err), story, small}
}

// keep has TestRegressions play a life.
func keep(t *testing.T, r regression) {
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

// TestReplay lives one seed's life, and tells its story if it breaks anything. Written down
// it is the same life.
func TestReplay(t *testing.T) {
	lived, hash := hashedIn(t, drawn(*seed))
	results, err := Judge(lived)
	defer t.Logf("%d steps, %d events, %d deviations, hash %s", lived.Steps, len(lived.Log.Events), len(lived.Deviations), hash)
	for _, verdict := range verdicts(results) {
		t.Log(verdict)
	}
	if *out != "" {
		if err := lived.Log.Write(filepath.Join(*out, "history")); err != nil {
			t.Error(err)
		}
		t.Logf("what was written down: podfall verify %s, podfall report %s", *out, *out)
	}
	if err != nil {
		t.Error(err)
		keep(t, tell(t, lived, err))
		return
	}
	for _, deed := range lived.Script.Deeds {
		t.Log(deed)
	}
	if _, again := hashedIn(t, written(lived)); again != hash {
		t.Errorf("written down it is another life, of hash %s", again)
	}
}

// TestWrittenDown has what a life has written down be judged the same when it is read from
// files, which have an order of their own.
func TestWrittenDown(t *testing.T) {
	lived := liveIn(t, Draw(*seed, modeOf(*seed), 20*time.Minute))
	here, err := Judge(lived)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := lived.Log.Write(dir); err != nil {
		t.Fatal(err)
	}
	if lived.Log, err = history.Read(dir); err != nil {
		t.Fatal(err)
	}
	there, err := Judge(lived)
	if diff := cmp.Diff(verdicts(here), verdicts(there)); diff != "" || err != nil {
		t.Errorf("%v; (-as it was lived +as it was read)\n%s", err, diff)
	}
	lived.Store = nil // as podfall verify has it, which finds no database
	if _, err := Judge(lived); err != nil {
		t.Error(err)
	}
}

// verdicts are the lines of what became of the promises.
func verdicts(results []guarantees.Result) []string {
	var lines []string
	for _, r := range results {
		lines = append(lines, fmt.Sprintf("%s %s, %d cases", r.ID, r.Verdict, r.Cases))
	}
	return lines
}

// TestRegressions plays the lives that have shown mistakes, which are gone. Each still puts to
// the test what it has once broken.
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
			lived := liveIn(t, kept.Script)
			results, broken := Judge(lived)
			if broken != nil {
				t.Errorf("it breaks %s again, which was %s: %v\n%s", Broke(broken), kept.Broke, broken, strings.Join(kept.Story, "\n"))
			}
			if cases(kept.Broke, lived, results) == 0 {
				t.Errorf("it meets no case of %s any more: it proves nothing", kept.Broke)
			}
		})
	}
}

// cases are how often a life has put to the test what was once broken: a promise, or for the
// end of something how often that was written; none of what is not known here.
func cases(broke string, lived Lived, results []guarantees.Result) int {
	if i := slices.IndexFunc(results, func(r guarantees.Result) bool { return r.ID == broke }); i >= 0 {
		return results[i].Cases
	}
	resource := map[string]string{"replicas": "replicasets.apps", "rollouts": "deployments.apps", "jobs": "jobs.batch", "cronjobs": "cronjobs.batch"}[broke]
	written := 0
	for _, e := range lived.Log.Events {
		if c, ok := e.Fact.(history.Commit); ok && c.Resource == resource {
			written++
		}
	}
	return written
}

// TestMinimise leaves what is needed, and nothing else.
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

// TestShortenWithAWrongClock has the clock that a broken promise shows be a day behind: the life ends
// soon after it was broken all the same.
func TestShortenWithAWrongClock(t *testing.T) {
	const seen = 20 * time.Minute
	start := time.Unix(0, 0)
	begin := history.Event{Wall: start}
	late := history.Event{Began: int64(seen), Ended: int64(seen), Wall: start.Add(seen - 24*time.Hour)}
	broken := &guarantees.ViolationError{ID: "A8", Counterexample: guarantees.Counterexample{Events: []history.Event{late}}}
	var lasted []time.Duration
	lived := Lived{Script: Script{Lasts: time.Hour}, Log: history.Log{Events: []history.Event{begin, late}}}
	Shrink(lived, broken, 10, func(script Script) error {
		lasted = append(lasted, script.Lasts)
		return broken
	})
	if want := []time.Duration{time.Hour, seen + 5*time.Second}; len(lasted) < 2 || !slices.Equal(lasted[:2], want) {
		t.Errorf("lives of %v, want them to begin with %v", lasted, want)
	}
}
