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

var within = flag.Duration("within", time.Minute, "how long TestHunt may search for one bug, of processor time; 0 means for as many lives as it has")

// upstream has the bugs that are ported from the history of etcd, Kubernetes, containerd and
// NATS, each named after where it was reported.
const upstream = "testdata/upstream"

// The bounds of a hunt.
const (
	mostLives     = 60 // of an hour each, or less where the bug says so
	mostDecisions = 10
	mostShrinking = 1500 // lives, of which most are short
)

// TestHunt lets the simulator loose on planted bugs: it plays life after life until the
// promise of the bug is broken, which must be within a minute of the hunting process's CPU,
// and makes a story of at most ten decisions of it. By default it hunts for two of the bugs
// from upstream's history, which change from day to day; -all hunts for all of them, and for
// those of testdata that are the simulator's.
func TestHunt(t *testing.T) {
	if hunted := os.Getenv(Switch); hunted != "" {
		hunt(t, hunted)
		return
	}
	all := prey(t)
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
	var table []trophy
	t.Cleanup(func() { t.Log("\n" + tell(table)) })
	for _, m := range wanted(all) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			found := send(t, binary, m)
			mu.Lock()
			table = append(table, found)
			mu.Unlock()
			switch {
			case found.Broke == "":
				t.Errorf("%s\nnot found in %d lives and %v", m.What, found.Lives, found.Search)
			case *within != 0 && found.Search.CPU > *within:
				t.Errorf("%s\nfound after %v (CPU, wall), want %v of CPU", m.What, found.Search, *within)
			case found.Decisions > mostDecisions:
				t.Errorf("%d decisions are left, want at most %d:\n%s", found.Decisions, mostDecisions, strings.Join(found.Story, "\n"))
			}
		})
	}
}

// prey are the bugs from upstream's history, and behind them those of testdata that are the
// simulator's.
func prey(t *testing.T) []Mutant {
	t.Helper()
	all, err := Read(upstream)
	if err != nil {
		t.Fatal(err)
	}
	others, err := Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return append(all, slices.DeleteFunc(others, func(m Mutant) bool { return m.Suite != "sim" })...)
}

// wanted are the bugs of today, or those that were asked for.
func wanted(all []Mutant) []Mutant {
	if *every {
		return all
	}
	if *only != "" {
		asked := regexp.MustCompile(*only)
		return slices.DeleteFunc(all, func(m Mutant) bool { return !asked.MatchString(m.Name) })
	}
	ported, err := filepath.Glob(filepath.Join(upstream, "*.mutant"))
	if err != nil || len(ported) == 0 {
		return nil
	}
	today := int(clock.Clock{}.Now().Unix() / int64((24 * time.Hour).Seconds()))
	return []Mutant{all[2*today%len(ported)], all[(2*today+1)%len(ported)]}
}

// trophy is what came of a hunt.
type trophy struct {
	Bug string
	// Broke is the promise that was found broken, empty for none.
	Broke string
	// Lives is how many were played, the last with Seed; Simulated is how much time passed in
	// them.
	Lives     int
	Seed      uint64
	Simulated time.Duration
	// Decisions are left after that many lives more.
	Decisions, Shrinking int
	Story                []string
	// Search and Shrink are what both took.
	Search, Shrink cost
}

// cost is time on the wall, and of processors: on a busy machine that says more.
type cost struct{ Wall, CPU time.Duration }

func (c cost) String() string {
	return fmt.Sprintf("%.1f s, %.1f s", c.CPU.Seconds(), c.Wall.Seconds())
}

// spent is what this process has cost since a moment, at which it had cost that much.
func (c cost) spent() cost {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it fails for no process of one's own
	now := time.Duration(clock.Clock{}.Now().UnixNano())
	return cost{now - c.Wall, time.Duration(used.Utime.Nano()+used.Stime.Nano()) - c.CPU}
}

// send has a process of its own hunt for a bug.
func send(t *testing.T, binary string, m Mutant) trophy {
	t.Helper()
	run := exec.CommandContext(t.Context(), binary, "-test.run=TestHunt$", "-test.v", "-test.timeout=10m", "-within="+within.String())
	run.Env = append(os.Environ(), Switch+"="+m.Name)
	said, err := run.CombinedOutput()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(said) {
		if data, is := bytes.CutPrefix(line, []byte(brought)); is {
			var found trophy
			if err := json.Unmarshal(data, &found); err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("%s\nthe hunt has ended without a word: %s", m.What, last(said))
	return trophy{}
}

// brought begins the line on which a hunting process says what it has found.
const brought = "trophy: "

// hunt is what the hunting process does: it is the bug.
func hunt(t *testing.T, name string) {
	all := prey(t)
	at := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
	if at < 0 {
		t.Fatalf("there is no mutant %s", name)
	}
	found := search(t, all[at])
	data, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("\n" + brought + string(data)) // for the process that sent it
}

// search plays lives until one breaks a promise of the bug, and makes it small.
func search(t *testing.T, m Mutant) trophy {
	first, life := livesOf(t, m)
	found, began := trophy{Bug: m.Name}, cost{}.spent()
	for found.Lives < mostLives && (*within == 0 || began.spent().CPU < *within) {
		found.Seed = first + uint64(found.Lives)
		found.Lives++
		lived := live(t, sim.Draw(found.Seed, sim.Mode(found.Seed%2), life))
		broken := breaks(lived, m.Promises)
		found.Search = began.spent()
		if broken == nil {
			found.Simulated += life
			continue
		}
		found.Broke, found.Simulated = sim.Broke(broken), found.Simulated+when(lived, broken)
		began = cost{}.spent()
		small, lives := sim.Shrink(lived, broken, mostShrinking, func(script sim.Script) error {
			return breaks(live(t, script), []string{found.Broke})
		})
		found.Shrinking, found.Shrink = lives, began.spent()
		found.Decisions = len(small.Deeds) + len(small.Deviations) + len(small.Jitters)
		found.Story = sim.Story(small, breaks(live(t, small), []string{found.Broke}))
		return found
	}
	return found
}

// livesOf are the lives that meet a bug: the seed of the first, and how long each lasts. They are
// those from seed 1 on, of an hour, or what its suite is given.
func livesOf(t *testing.T, m Mutant) (first uint64, lasts time.Duration) {
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

// live plays a script in a bubble of its own.
func live(t *testing.T, script sim.Script) (lived sim.Lived) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { lived = sim.Live(script, nil) })
	return lived
}

// breaks is the first of these promises that a life has broken; nil for none.
func breaks(lived sim.Lived, promises []string) error {
	results, _ := sim.Judge(lived)
	for _, result := range results {
		if slices.Contains(promises, result.ID) && result.Err() != nil {
			return result.Err()
		}
	}
	return nil
}

// when is how far a life had come when it was seen to be broken.
func when(lived sim.Lived, broken error) time.Duration {
	var shown *guarantees.ViolationError
	if !errors.As(broken, &shown) || len(shown.Events) == 0 {
		return lived.Script.Lasts
	}
	return shown.Events[len(shown.Events)-1].Wall.Sub(lived.Log.Events[0].Wall)
}

// tell is the table of all hunts, and the stories behind it.
func tell(table []trophy) string {
	slices.SortFunc(table, func(a, b trophy) int { return strings.Compare(a.Bug, b.Bug) })
	var text strings.Builder
	text.WriteString("| bug | broke | seed | simulated | to find: CPU, wall | decisions | lives to shrink | to shrink: CPU, wall |\n|---|---|---|---|---|---|---|---|\n")
	for _, f := range table {
		broke := f.Broke
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
