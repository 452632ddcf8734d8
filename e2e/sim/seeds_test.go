package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

const (
	// seedsPerDay is how many new runs each day has.
	seedsPerDay = 1000
	// shortSeeds is the number of runs with -short.
	shortSeeds = 40
	// repeatEvery says that one of so many runs is repeated.
	repeatEvery = 20
)

// firstSeedOf returns the first seed of a day, the same in every time zone.
func firstSeedOf(now time.Time) uint64 {
	return uint64(now.Unix()/int64((24*time.Hour).Seconds())) * seedsPerDay
}

// chosenSeeds returns the seeds to run: those asked for, or the day's and those of the recorded
// regressions.
func chosenSeeds(t *testing.T) []uint64 {
	t.Helper()
	first, many := *from, *seedCount
	var all []uint64
	switch {
	case many == 0 && testing.Short():
		many = shortSeeds
	case many == 0:
		first, many = firstSeedOf(clock.Clock{}.Now()), seedsPerDay
		all = regressionSeeds(t)
	}
	for i := range many {
		all = append(all, first+uint64(i))
	}
	t.Logf("seeds %d to %d; to play them again: go test ./e2e/sim -run 'TestSeeds$' -from %d -seeds %d", first, first+uint64(many)-1, first, many)
	return all
}

// regressionSeeds returns the seeds of the recorded regressions.
func regressionSeeds(t *testing.T) (all []uint64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(regressions, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var kept regression
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &kept)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, kept.Script.Seed)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// totals adds up the results of parallel runs.
type totals struct {
	mu sync.Mutex
	// hashes are those of the runs that are to have one.
	hashes   map[uint64]string
	runs     int
	steps    int
	events   int
	broken   map[string]int
	met      counts
	struck   Matrix
	reported bool
}

func (y *totals) add(result Result) {
	struck := MatrixOf(result)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.struck.Add(struck)
	y.runs++
	y.steps += result.Steps
	y.events += len(result.Log.Events)
	for what, n := range result.Coverage { // sums do not depend on the order
		y.met[what] += n
	}
	for _, action := range result.Script.Actions {
		if action.Kind.isFault() {
			y.broken[string(action.Kind)]++
		}
	}
	for _, d := range result.Deviations {
		switch {
		case d.Copies == 0:
			y.broken["lost"]++
		case d.Copies > 1:
			y.broken["twice"]++
		default:
			y.broken["late"]++
		}
	}
}

// hash returns the hash of all hashed runs. It is the same for the same seeds on any machine.
func (y *totals) hash() string {
	sum := sha256.New()
	for _, number := range slices.Sorted(maps.Keys(y.hashes)) {
		fmt.Fprintln(sum, number, y.hashes[number])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// firstReport returns true on its first call only.
func (y *totals) firstReport() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	before := y.reported
	y.reported = true
	return !before
}

// TestSeeds runs scripts from seeds and judges each run. Every twentieth is run again with another
// number of processors, and must be the same.
func TestSeeds(t *testing.T) {
	numbers := chosenSeeds(t)
	all := &totals{hashes: map[uint64]string{}, broken: map[string]int{}, met: counts{}}
	for i, number := range numbers {
		if *hashAll || i%repeatEvery == 0 {
			all.hashes[number] = ""
		}
	}
	began, used := time.Now(), cpuTime()
	t.Run("once", func(t *testing.T) {
		for _, number := range numbers {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				if !isSequential() {
					t.Parallel()
				}
				all.runSeed(t, number)
			})
		}
	})
	took, used := time.Since(began), cpuTime()-used
	result := float64(all.runs)
	t.Logf("figures: %d runs of %v took %v, %.1f a second; %v of CPU, %.2f simulated hours a second; %.0f steps and %.0f events each; hash of %d of them %s",
		all.runs, runDuration(), took.Round(time.Millisecond), result/took.Seconds(), used, result*runDuration().Hours()/used.Seconds(),
		float64(all.steps)/result, float64(all.events)/result, len(all.hashes), all.hash())
	t.Logf("figures: broken: %v; met: %v; which met which phase of a deletion:\n%v\nnever met: %s", all.broken, all.met, &all.struck, strings.Join(all.struck.Empty(), ", "))

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + runtime.GOMAXPROCS(0)))
	t.Run("twice", func(t *testing.T) {
		for i := 0; i < len(numbers); i += repeatEvery {
			t.Run(fmt.Sprint(numbers[i]), func(t *testing.T) {
				t.Parallel()
				once := all.hashes[numbers[i]]
				if _, again := runHashed(t, scriptOfSeed(numbers[i])); again != once {
					t.Errorf("seed %d: one seed has had two runs: %s and %s", numbers[i], once, again)
				}
			})
		}
	})
}

// runSeed runs one seed and judges the run. The first failed run is shrunk.
func (y *totals) runSeed(t *testing.T, number uint64) {
	t.Helper()
	result := y.runScript(t, number)
	y.add(result)
	results, err := Judge(result)
	if err == nil {
		if err := checkEventful(result, results); err != nil {
			t.Errorf("seed %d: %v", number, err)
		}
		return
	}
	t.Errorf("seed %d: %v\nto play it again: go test ./e2e/sim -run TestReplay -seed %d", number, err, number)
	for _, result := range results {
		if broken := result.Err(); broken != nil {
			t.Log(broken)
		}
	}
	if *shrinkFailures && y.firstReport() {
		saveRegression(t, shrinkToRegression(t, result, err))
	}
}

// runScript runs the script of a seed, with a hash if the seed is to have one.
func (y *totals) runScript(t *testing.T, number uint64) Result {
	t.Helper()
	y.mu.Lock()
	_, hashed := y.hashes[number]
	y.mu.Unlock()
	if !hashed {
		return runInBubble(t, scriptOfSeed(number))
	}
	result, hash := runHashed(t, scriptOfSeed(number))
	y.mu.Lock()
	y.hashes[number] = hash
	y.mu.Unlock()
	return result
}

// isSequential reports whether runs are sequential, so that the first failed run is the last, and
// always the same.
func isSequential() bool {
	asked := flag.Lookup("test.failfast")
	return asked != nil && asked.Value.String() == "true"
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestOneDayHasOneThousand checks that all times of a day have the same seeds, and other days have
// others.
func TestOneDayHasOneThousand(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	today, night, tomorrow := firstSeedOf(noon), firstSeedOf(noon.Add(12*time.Hour-time.Second)), firstSeedOf(noon.Add(12*time.Hour))
	if today != night || tomorrow != today+seedsPerDay {
		t.Errorf("from seed %d at noon, %d at night and %d on the next day", today, night, tomorrow)
	}
}
