package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/e2e/sim"
	"github.com/podfall/podfall/internal/clock"
)

var within = flag.Duration("within", time.Minute, "how long TestHunt may search for one bug, of processor time; 0 means for as many runs as it has")

// upstreamDir has the bugs that are ported from the history of etcd, Kubernetes, containerd and
// NATS, each named after its report.
const upstreamDir = "testdata/upstream"

// The bounds of a hunt.
const (
	maxRuns       = 60 // of an hour each, or less where the bug says so
	maxDecisions  = 10
	maxShrinkRuns = 1500 // lives, of which most are short
)

// TestHunt lets the simulator loose on planted bugs: it plays run after run until the
// guarantee of the bug is broken, which must be within a minute of the hunting process's CPU,
// and makes a story of at most ten decisions of it. By default it hunts for two of the bugs
// from upstream's history, which change from day to day; -all hunts for all of them, and for
// those of testdata that are the simulator's.
func TestHunt(t *testing.T) {
	if hunted := os.Getenv(Switch); hunted != "" {
		hunt(t, hunted)
		return
	}
	all := huntedMutants(t)
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{from: from, binaries: map[string]string{}}
	b.plant(t, all)
	binary := filepath.Join(b.dir, "hunt.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", b.overlay, "-o", binary, "./e2e/mutants")
	build.Dir = from
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var mu sync.Mutex
	var table []finding
	t.Cleanup(func() { t.Log("\n" + report(table)) })
	for _, m := range mutantsOfToday(all) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			found := huntInProcess(t, binary, m)
			mu.Lock()
			table = append(table, found)
			mu.Unlock()
			switch {
			case found.Violated == "":
				t.Errorf("%s\nnot found in %d runs and %v", m.What, found.Runs, found.Search)
			case *within != 0 && found.Search.CPU > *within:
				t.Errorf("%s\nfound after %v (CPU, wall), want %v of CPU", m.What, found.Search, *within)
			case found.Decisions > maxDecisions:
				t.Errorf("%d decisions are left, want at most %d:\n%s", found.Decisions, maxDecisions, strings.Join(found.Story, "\n"))
			}
		})
	}
}

// huntedMutants returns the bugs from upstream's history, and then those of testdata whose suite is
// the simulator.
func huntedMutants(t *testing.T) []Mutant {
	t.Helper()
	all, err := Read(upstreamDir)
	if err != nil {
		t.Fatal(err)
	}
	others, err := Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return append(all, slices.DeleteFunc(others, func(m Mutant) bool { return m.Suite != "sim" })...)
}

// mutantsOfToday returns the bugs of today, or those that were asked for.
func mutantsOfToday(all []Mutant) []Mutant {
	if *every {
		return all
	}
	if *only != "" {
		asked := regexp.MustCompile(*only)
		return slices.DeleteFunc(all, func(m Mutant) bool { return !asked.MatchString(m.Name) })
	}
	ported, err := filepath.Glob(filepath.Join(upstreamDir, "*.mutant"))
	if err != nil || len(ported) == 0 {
		return nil
	}
	today := int(clock.Clock{}.Now().Unix() / int64((24 * time.Hour).Seconds()))
	return []Mutant{all[2*today%len(ported)], all[(2*today+1)%len(ported)]}
}

// finding is the result of a hunt.
type finding struct {
	Bug string
	// Violated is the guarantee that was found violated, empty for none.
	Violated string
	// Runs counts the runs, the last with Seed; Simulated is their simulated time.
	Runs      int
	Seed      uint64
	Simulated time.Duration
	// Decisions are left after Shrinking more runs.
	Decisions, Shrinking int
	Story                []string
	// Search and Shrink are the time that both took.
	Search, Shrink cost
}

// cost is wall-clock time and processor time. On a busy machine the latter says more.
type cost struct{ Wall, CPU time.Duration }

func (c cost) String() string {
	return fmt.Sprintf("%.1f s, %.1f s", c.CPU.Seconds(), c.Wall.Seconds())
}

// since returns what this process has used since an earlier measurement.
func (c cost) since() cost {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails for no process of one's own
	now := time.Duration(clock.Clock{}.Now().UnixNano())
	return cost{now - c.Wall, time.Duration(used.Utime.Nano()+used.Stime.Nano()) - c.CPU}
}

// huntInProcess hunts for a bug in a process of its own.
func huntInProcess(t *testing.T, binary string, m Mutant) finding {
	t.Helper()
	run := exec.CommandContext(t.Context(), binary, "-test.run=TestHunt$", "-test.v", "-test.timeout=10m", "-within="+within.String())
	run.Env = append(os.Environ(), Switch+"="+m.Name)
	said, err := run.CombinedOutput()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(said) {
		if data, is := bytes.CutPrefix(line, []byte(findingPrefix)); is {
			var found finding
			if err := json.Unmarshal(data, &found); err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("%s\nthe hunt has ended without a word: %s", m.What, lastLines(said))
	return finding{}
}

// findingPrefix begins the line with the result of a hunting process.
const findingPrefix = "trophy: "

// hunt runs in the hunting process, in which the bug is active.
func hunt(t *testing.T, name string) {
	all := huntedMutants(t)
	at := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
	if at < 0 {
		t.Fatalf("there is no mutant %s", name)
	}
	found := search(t, all[at])
	data, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\n" + findingPrefix + string(data)) // for the process that sent it
}

// search runs scripts until one violates a guarantee of the bug, and shrinks that.
func search(t *testing.T, m Mutant) finding {
	first, life := runsOf(t, m)
	found, began := finding{Bug: m.Name}, cost{}.since()
	for found.Runs < maxRuns && (*within == 0 || began.since().CPU < *within) {
		found.Seed = first + uint64(found.Runs)
		found.Runs++
		result := runScript(t, sim.Draw(found.Seed, sim.Mode(found.Seed%2), life))
		broken := firstViolation(result, m.Guarantees)
		found.Search = began.since()
		if broken == nil {
			found.Simulated += life
			continue
		}
		found.Violated, found.Simulated = sim.ViolationName(broken), found.Simulated+timeOfViolation(result, broken)
		began = cost{}.since()
		small, lives := sim.Shrink(result, broken, maxShrinkRuns, func(script sim.Script) error {
			return firstViolation(runScript(t, script), []string{found.Violated})
		})
		found.Shrinking, found.Shrink = lives, began.since()
		found.Decisions = len(small.Actions) + len(small.Deviations) + len(small.Jitters)
		found.Story = sim.Story(small, firstViolation(runScript(t, small), []string{found.Violated}))
		return found
	}
	return found
}

// runsOf returns the first seed that meets a bug, and how long each run lasts: seed 1 and an hour,
// unless the arguments of the suite differ.
func runsOf(t *testing.T, m Mutant) (first uint64, lasts time.Duration) {
	t.Helper()
	first, lasts = 1, time.Hour
	for _, arg := range m.Args {
		var err error
		if from, is := strings.CutPrefix(arg, "-from="); is {
			first, err = strconv.ParseUint(from, 10, 64)
		}
		if hours, is := strings.CutPrefix(arg, "-hours="); is {
			lasts, err = time.ParseDuration(hours + "h")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return first, lasts
}

// runScript runs a script in its own bubble.
func runScript(t *testing.T, script sim.Script) (result sim.Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { result = sim.Run(script, nil) })
	return result
}

// firstViolation returns the first violation of these guarantees; nil for none.
func firstViolation(result sim.Result, promises []string) error {
	results, _ := sim.Judge(result)
	for _, result := range results {
		if slices.Contains(promises, result.ID) && result.Err() != nil {
			return result.Err()
		}
	}
	return nil
}

// timeOfViolation returns the simulated time at which the violation was seen.
func timeOfViolation(result sim.Result, broken error) time.Duration {
	var shown *guarantees.ViolationError
	if !errors.As(broken, &shown) || len(shown.Events) == 0 {
		return result.Script.Duration
	}
	return shown.Events[len(shown.Events)-1].Wall.Sub(result.Log.Events[0].Wall)
}

// report returns the table of all hunts, and the stories.
func report(table []finding) string {
	slices.SortFunc(table, func(a, b finding) int { return strings.Compare(a.Bug, b.Bug) })
	var text strings.Builder
	text.WriteString("| bug | broke | seed | simulated | to find: CPU, wall | decisions | runs to shrink | to shrink: CPU, wall |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range table {
		broke := f.Violated
		if broke == "" {
			broke = "nothing"
		}
		fmt.Fprintf(&text, "| %s | %s | %d | %.0f s | %s | %d | %d | %s |\n",
			f.Bug, broke, f.Seed, f.Simulated.Seconds(), f.Search, f.Decisions, f.Shrinking, f.Shrink)
	}
	for _, f := range table {
		fmt.Fprintf(&text, "\n%s\n%s\n", f.Bug, strings.Join(f.Story, "\n"))
	}
	return text.String()
}
