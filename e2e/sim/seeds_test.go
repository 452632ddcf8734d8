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
	// aDay is how many lives are new each day.
	aDay = 1000
	// aFew is how many are lived with -short.
	aFew = 40
	// oneIn is how many lives there are for each that is lived twice.
	oneIn = 20
)

// firstOf is the first seed of a day: it has the same lives wherever they are played.
func firstOf(now time.Time) uint64 {
	return uint64(now.Unix()/int64((24*time.Hour).Seconds())) * aDay
}

// chosen are the seeds to be played: those that were asked for, or the day's and all that
// have shown a mistake before.
func chosen(t *testing.T) []uint64 {
	t.Helper()
	first, many := *from, *seeds
	var all []uint64
	switch {
	case many == 0 && testing.Short():
		many = aFew
	case many == 0:
		first, many = firstOf(clock.Clock{}.Now()), aDay
		all = memorable(t)
	}
	for i := range many {
		all = append(all, first+uint64(i))
	}
	t.Logf("seeds %d to %d; to play them again: go test ./sim -run 'TestSeeds$' -from %d -seeds %d", first, first+uint64(many)-1, first, many)
	return all
}

// memorable are the seeds of the lives that are kept.
func memorable(t *testing.T) (all []uint64) {
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

// tally is what many lives have had, side by side.
type tally struct {
	mu sync.Mutex
	// hashes are those of the lives that are to have one.
	hashes map[uint64]string
	lives  int
	steps  int
	events int
	broken map[string]int
	met    met
	struck Matrix
	told   bool
}

func (y *tally) take(lived Lived) {
	struck := MatrixOf(lived)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.struck.Add(struck)
	y.lives++
	y.steps += lived.Steps
	y.events += len(lived.Log.Events)
	for what, n := range lived.Met { // sums do not depend on the order
		y.met[what] += n
	}
	for _, deed := range lived.Script.Deeds {
		if deed.Do.fault() {
			y.broken[string(deed.Do)]++
		}
	}
	for _, d := range lived.Deviations {
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

// hash is that of all lives that have one: the same for the same seeds, wherever and however
// they are played.
func (y *tally) hash() string {
	sum := sha256.New()
	for _, number := range slices.Sorted(maps.Keys(y.hashes)) {
		fmt.Fprintln(sum, number, y.hashes[number])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// first reports whether nobody has asked before.
func (y *tally) first() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	before := y.told
	y.told = true
	return !before
}

// TestSeeds lives lives, and puts each to the test. Every twentieth is lived once more, with
// another number of processors, and must be the same.
func TestSeeds(t *testing.T) {
	numbers := chosen(t)
	all := &tally{hashes: map[uint64]string{}, broken: map[string]int{}, met: met{}}
	for i, number := range numbers {
		if *hashAll || i%oneIn == 0 {
			all.hashes[number] = ""
		}
	}
	began, used := time.Now(), cpu()
	t.Run("once", func(t *testing.T) {
		for _, number := range numbers {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				if !inTurn() {
					t.Parallel()
				}
				all.live(t, number)
			})
		}
	})
	took, used := time.Since(began), cpu()-used
	lived := float64(all.lives)
	t.Logf("figures: %d lives of %v took %v, %.1f a second; %v of CPU, %.2f simulated hours a second; %.0f steps and %.0f events each; hash of %d of them %s",
		all.lives, lasts(), took.Round(time.Millisecond), lived/took.Seconds(), used, lived*lasts().Hours()/used.Seconds(),
		float64(all.steps)/lived, float64(all.events)/lived, len(all.hashes), all.hash())
	t.Logf("figures: broken: %v; met: %v; which met which phase of a deletion:\n%v\nnever met: %s", all.broken, all.met, &all.struck, strings.Join(all.struck.Empty(), ", "))

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1 + runtime.GOMAXPROCS(0)))
	t.Run("twice", func(t *testing.T) {
		for i := 0; i < len(numbers); i += oneIn {
			t.Run(fmt.Sprint(numbers[i]), func(t *testing.T) {
				t.Parallel()
				once := all.hashes[numbers[i]]
				if _, again := hashedIn(t, drawn(numbers[i])); again != once {
					t.Errorf("seed %d: one seed has had two lives: %s and %s", numbers[i], once, again)
				}
			})
		}
	})
}

// live lives one life, and puts it to the test. The first that breaks something is told in
// short.
func (y *tally) live(t *testing.T, number uint64) {
	t.Helper()
	lived := y.play(t, number)
	y.take(lived)
	results, err := Judge(lived)
	if err == nil {
		if err := eventful(lived, results); err != nil {
			t.Errorf("seed %d: %v", number, err)
		}
		return
	}
	t.Errorf("seed %d: %v\nto play it again: go test ./sim -run TestReplay -seed %d", number, err, number)
	for _, result := range results {
		if broken := result.Err(); broken != nil {
			t.Log(broken)
		}
	}
	if *short && y.first() {
		keep(t, tell(t, lived, err))
	}
}

// play plays the life of a seed, and has it be hashed if it is to be.
func (y *tally) play(t *testing.T, number uint64) Lived {
	t.Helper()
	y.mu.Lock()
	_, hashed := y.hashes[number]
	y.mu.Unlock()
	if !hashed {
		return liveIn(t, drawn(number))
	}
	lived, hash := hashedIn(t, drawn(number))
	y.mu.Lock()
	y.hashes[number] = hash
	y.mu.Unlock()
	return lived
}

// inTurn reports whether lives are played one after the other, so that the first that fails
// is the last, and always the same.
func inTurn() bool {
	asked := flag.Lookup("test.failfast")
	return asked != nil && asked.Value.String() == "true"
}

// cpu is how long this process has had a processor.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestOneDayHasOneThousand has all lives of a day be the same, and none of them another day's.
func TestOneDayHasOneThousand(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	today, night, tomorrow := firstOf(noon), firstOf(noon.Add(12*time.Hour-time.Second)), firstOf(noon.Add(12*time.Hour))
	if today != night || tomorrow != today+aDay {
		t.Errorf("from seed %d at noon, %d at night and %d on the next day", today, night, tomorrow)
	}
}
