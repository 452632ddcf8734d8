package mutants

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/clock"
)

var (
	every = flag.Bool("all", false, "try every mutant, not ten that change from day to day")
	only  = flag.String("only", "", "try the mutants whose names match this expression")
	dir   = flag.String("dir", "testdata", "where the mutants are")
)

// root is the repository's, seen from here.
const root = "../.."

// suites are the tests that mutants are let loose on: a package, and what to run of it.
func suites() map[string]suite {
	return map[string]suite{
		"sim":       {pkg: "e2e/sim", args: []string{"-test.run=TestSeeds$", "-seeds=40", "-shrink=false"}},
		"explorer":  {pkg: "e2e/sim", args: []string{"-test.run=TestExplore$"}},
		"lives":     {pkg: "e2e/guarantees", args: []string{"-test.run=TestSeededRuns$", "-seeds=12"}},
		"quiet":     {pkg: "e2e/guarantees", args: []string{"-test.run=TestFaultFreeRuns$", "-seeds=12"}},
		"disk":      {pkg: "e2e/guarantees", args: []string{"-test.run=TestFailingDisk$"}},
		"same-end":  {pkg: "e2e/guarantees", args: []string{"-test.run=TestSameEnd$", "-seeds=12"}},
		"leaks":     {pkg: "e2e/guarantees", args: []string{"-test.run=TestLeaks$"}},
		"scenarios": {pkg: "e2e/scenarios", args: []string{"-test.run=TestScenarios$"}},
		"store":     {pkg: "services/apiserver/store", args: []string{"-test.run=TestPowerCuts$|TestDamagedFiles$|TestKilled$"}},
	}
}

type suite struct {
	pkg  string
	args []string
}

// broken are the promises that an output says are broken, in their own words: also the tests
// that stand for promises of which no history tells fail for other reasons.
func broken(said []byte) (broken []string) {
	for _, p := range guarantees.Invariants() {
		if bytes.Contains(said, []byte(guarantees.Title(p.ID))) {
			broken = append(broken, p.ID)
		}
	}
	return broken
}

// TestBroken has a test that stands for a promise fail for another reason: nothing is caught.
func TestBroken(t *testing.T) {
	for said, want := range map[string][]string{
		"--- FAIL: TestLeaks (1.00s)\n    leaks_test.go:84: 3 pods are still there, <nil>":                                               nil,
		"--- FAIL: TestLeaks (1.00s)\n    leaks_test.go:51: L10: nothing leaks: heap have grown by more than a tenth":                    {"L10"},
		"--- FAIL: TestSameEnd (1.00s)\n    same_test.go:31: only 3 objects in the end: map[]":                                           nil,
		"    guarantees_test.go:43: K6: a runtime sends a container its stop signal once: twice\n    guarantees_test.go:49: A1: 7 cases": {"K6"},
	} {
		if got := broken([]byte(said)); !slices.Equal(got, want) {
			t.Errorf("%s\n%v is broken, want %v", said, got, want)
		}
	}
}

// longest is how long a mutant may live.
const longest = 5 * time.Minute

// TestMutants plants bugs and sees each of them caught by the checker of the promise that
// it breaks.
func TestMutants(t *testing.T) {
	all, err := Read(*dir)
	if err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	chosen := choose(all)
	b := &builder{from: from, binaries: map[string]string{}}
	b.plant(t, all)
	for _, m := range chosen {
		b.build(t, m)
	}
	var caught atomic.Int64
	t.Cleanup(func() { t.Logf("figures: %d of %d caught", caught.Load(), len(chosen)) })
	for _, m := range chosen {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			began := clock.Clock{}.Now()
			said := let(t, b, m)
			found := broken(said)
			for _, promise := range m.Promises {
				if !slices.Contains(found, promise) {
					t.Fatalf("%s\n%s survives: %s has found %v broken, not %s\n%s", m.What, m.Name, m.Suite, found, promise, last(said))
				}
			}
			caught.Add(1)
			t.Logf("%s: caught by %v in %v", m.What, found, clock.Clock{}.Since(began).Round(time.Second))
		})
	}
}

// let lets a mutant loose on its suite, and returns what that says.
func let(t *testing.T, b *builder, m Mutant) []byte {
	t.Helper()
	s := suites()[m.Suite]
	run := exec.CommandContext(t.Context(), b.binaries[s.pkg], slices.Concat([]string{"-test.failfast", "-test.timeout=" + longest.String()}, s.args, m.Args)...)
	run.Dir = filepath.Join(b.from, s.pkg)
	run.Env = append(os.Environ(), Switch+"="+m.Name)
	said, err := run.CombinedOutput()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return said
}

// choose are the mutants of today, or those that were asked for.
func choose(all []Mutant) []Mutant {
	if *every {
		return all
	}
	if *only != "" {
		wanted := regexp.MustCompile(*only)
		return slices.DeleteFunc(all, func(m Mutant) bool { return !wanted.MatchString(m.Name) })
	}
	const aDay = 10
	today := int(clock.Clock{}.Now().Unix() / int64((24 * time.Hour).Seconds()))
	turn := today * aDay % len(all)
	return slices.Concat(all[turn:], all[:turn])[:min(aDay, len(all))]
}

// builder builds tests with all mutants planted.
type builder struct {
	// from is the repository's root, and dir where everything is written.
	from, dir, overlay string
	// binaries are by package.
	binaries map[string]string
}

// plant plants every mutant, also those that are not let loose today: all must fit the
// product, and one overlay is one build.
func (b *builder) plant(t *testing.T, all []Mutant) {
	t.Helper()
	b.dir = t.TempDir()
	overlay, err := Plant(b.from, b.dir, all)
	if err != nil {
		t.Fatal(err)
	}
	b.overlay = overlay
}

// build builds the tests that a mutant asks for.
func (b *builder) build(t *testing.T, m Mutant) {
	t.Helper()
	s, ok := suites()[m.Suite]
	if !ok {
		t.Fatalf("%s: there is no suite %q", m.Name, m.Suite)
	}
	if b.binaries[s.pkg] != "" {
		return
	}
	b.binaries[s.pkg] = filepath.Join(b.dir, strings.ReplaceAll(s.pkg, "/", "-")+".test")
	run := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", b.overlay, "-o", b.binaries[s.pkg], "./"+s.pkg)
	run.Dir = b.from
	if said, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

var line = regexp.MustCompile(`(?m)^.*$`)

// last is the end of an output.
func last(said []byte) []byte {
	lines := line.FindAllIndex(said, -1)
	return said[lines[max(0, len(lines)-30)][0]:]
}

// TestEveryMutantCanBePlanted finds mutants whose lines the product no longer has.
func TestEveryMutantCanBePlanted(t *testing.T) {
	for _, from := range []string{*dir, upstream} {
		all, err := Read(from)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Plant(root, t.TempDir(), all); err != nil {
			t.Error(err)
		}
	}
}
