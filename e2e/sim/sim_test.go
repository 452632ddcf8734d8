package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

var (
	seedCount      = flag.Int("seeds", 0, "how many runs; 0 is today's thousand and the recorded regressions, or a few with -short")
	from           = flag.Uint64("from", 1, "the first seed, when there are -seeds")
	hours          = flag.Float64("hours", 1, "the simulated hours of each run")
	faultFree      = flag.Bool("quiet", false, "nothing breaks")
	seed           = flag.Uint64("seed", 17, "the seed of TestReplay")
	out            = flag.String("out", "", "the directory in which TestReplay leaves what was written down, as a cluster does")
	hashAll        = flag.Bool("hash", false, "hash every run, not only those that are repeated")
	shrinkFailures = flag.Bool("shrink", true, "shrink the first failed run, and keep it as a regression")
)

// TestMain sets a larger garbage collection target than the default, because runs are short, but
// one that fits a small machine. It also lowers the priority.
func TestMain(m *testing.M) {
	lowerPriority()
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// lowerPriority lets real-process tests that run at the same time have the processor: wall-clock
// time does not matter here. Linux has a priority for each thread; on other systems nothing
// changes.
func lowerPriority() {
	const nice = 10
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, nice) // at worst, it stays as it is
		}
	}
}

// runInBubble runs a script in its own bubble.
func runInBubble(t *testing.T, script Script) (result Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { result = Run(script, nil) })
	return result
}

// runHashed is runInBubble with a hash of all events.
func runHashed(t *testing.T, script Script) (result Result, hash string) {
	t.Helper()
	sum := sha256.New()
	synctest.Test(t, func(*testing.T) { result = Run(script, sum) })
	return result, hex.EncodeToString(sum.Sum(nil))
}

// modeOf returns Liveness for odd seeds, else Safety.
func modeOf(seed uint64) Mode { return Mode(seed % 2) }

func runDuration() time.Duration { return time.Duration(*hours * float64(time.Hour)) }

// scriptOfSeed returns the script of a seed, as the flags ask for.
func scriptOfSeed(seed uint64) Script {
	script := Draw(seed, modeOf(seed), runDuration())
	if *faultFree {
		script = script.WithoutFaults()
	}
	return script
}

// BenchmarkHour runs and judges one hour of a cluster of three nodes.
func BenchmarkHour(b *testing.B) {
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		if _, err := Judge(runHour(b)); err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/op")
}

// BenchmarkJudge judges such an hour.
func BenchmarkJudge(b *testing.B) {
	result := runHour(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Judge(result); err != nil {
			b.Error(err)
		}
	}
}

// runHour runs an hour for a benchmark, which has no bubble of its own.
func runHour(b *testing.B) (result Result) {
	b.Helper()
	if !testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{
		Name: "hour", F: func(t *testing.T) { result = runInBubble(t, Draw(2, Safety, time.Hour)) },
	}}) {
		b.Fatal("the run did not happen")
	}
	return result
}

// checkEventful checks that a run has had enough events to prove something.
func checkEventful(result Result, results []guarantees.Result) error {
	commits, kinds := 0, map[history.Name]int{}
	for _, e := range result.Log.Events {
		kinds[e.Fact.Name()]++
		if c, ok := e.Fact.(history.Commit); ok && c.Resource == "pods" {
			commits++
		}
	}
	held := 0
	for _, r := range results {
		if r.Verdict == guarantees.Held {
			held++
		}
	}
	for _, name := range []history.Name{
		history.NameOpCall, history.NameWatchEvent, history.NameStart, history.NameSignal, history.NameKubeletFinal, history.NameDecide, history.NameLease,
	} {
		if kinds[name] == 0 && (name != history.NameSignal && name != history.NameKubeletFinal || !takesAllNodesOut(result.Script)) {
			return fmt.Errorf("%w: no %s", ErrUneventful, name)
		}
	}
	if minutes := result.Script.Duration.Minutes(); float64(commits) < minutes || held < 20 {
		return fmt.Errorf("%w: %d commits of pods in %.0f minutes, %d properties held", ErrUneventful, commits, minutes, held)
	}
	return nil
}

// takesAllNodesOut reports whether users take every node out of service.
func takesAllNodesOut(script Script) bool {
	for _, node := range script.NodeNames() {
		if !slices.ContainsFunc(script.Actions, func(action Action) bool { return action.Kind == OutOfService && action.Name == node }) {
			return false
		}
	}
	return true
}
