//go:build linux

package store_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/powercut"
	"github.com/podfall/podfall/services/apiserver/store"
)

var (
	imageCount = flag.Int("images", 40000, "different power-cut images that TestPowerCuts opens")
	imageSeed  = flag.Uint64("image-seed", 1, "what they are drawn from")
)

const (
	cutEnv      = "STORE_TEST_CUT" // seed and path of the child of TestPowerCuts
	recordings  = 4                // at least
	drawsEach   = 10000            // of one recording at most: the more, the fewer of them are new
	cutsHistory = 40
)

// reported is a line that the child of TestPowerCuts writes: one when OnDurable is called, before
// the reply, and one after each step.
type reported struct {
	Shown    int64 // a revision; 0 in lines after a step
	Contents string
}

// The power goes at any moment of a store's life, its creation and its compactions
// included, and the disk keeps of each sector that is not synced what it likes. Then the
// store opens with what it had after the last step that was acknowledged, or the step
// that was under way; so no acknowledged write is lost, none happens by half, no revision
// is given twice, and the objects are what the log adds up to (A1, A3, A9, A13).
//
// Each recording begins on a disk that the one before was cut from.
func TestPowerCuts(t *testing.T) {
	if child := os.Getenv(cutEnv); child != "" {
		runUntilCut(t, child)
		return
	}
	t.Parallel()
	var tally cuts
	each := max(min(*imageCount/recordings, drawsEach), 1)
	bound := recordings + 4**imageCount/each
	for recording := 0; tally.different < *imageCount; recording++ {
		if recording == bound {
			t.Fatalf("%d recordings, %d images drawn: only %d of the %d asked for differ", bound, tally.drawn, tally.different, *imageCount)
		}
		tally.cut(t, recording, each)
	}
	t.Logf("figures: %d different images, of %d drawn; in %d the step under way was complete", tally.different, tally.drawn, tally.completed)
	if tally.completed == 0 || tally.completed == tally.different {
		t.Error("the images do not differ in what a disk may keep")
	}
}

// cuts are the images so far, of all recordings: how many were drawn, how many of them differ
// and have been opened, and in how many of those the step under way was complete.
type cuts struct {
	dir                         string
	drawn, different, completed int
}

// cut records one life, and opens what differs among its next images.
func (c *cuts) cut(t *testing.T, recording, draws int) {
	t.Helper()
	if c.dir == "" {
		c.dir = t.TempDir()
	}
	log, err := powercut.Record(powercut.Command{
		Args: []string{os.Args[0], "-test.run=^TestPowerCuts$"},
		Env:  append(os.Environ(), fmt.Sprintf("%s=%d %s", cutEnv, *imageSeed+uint64(recording), filepath.Join(c.dir, "store.db"))),
		Dir:  c.dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("recording %d: %d system calls, %d writes, %d syncs", recording, log.Len(), log.Writes(), log.Syncs())
	steps, seed, seen := stepsOf(t, log.Output()), maphash.MakeSeed(), map[image]bool{}
	for i := 0; i < draws && c.different < *imageCount; i++ {
		rng := rand.New(rand.NewPCG(*imageSeed, uint64(recording)<<32|uint64(i)))
		moment := rng.IntN(log.Len() + 1)
		if i%20 == 0 {
			moment = rng.IntN(min(25, log.Len())) // while it is opened, or made
		}
		disk := log.Cut(moment, rng.IntN)
		drawn := image{disk.Hash(seed), min(log.OutputBefore(moment), len(steps))}
		c.drawn++
		if seen[drawn] {
			continue
		}
		seen[drawn] = true
		c.different++
		if err := disk.Restore(c.dir); err != nil {
			t.Fatal(err)
		}
		if checkCut(t, c.dir, drawn.past, steps) {
			c.completed++
		}
		if t.Failed() {
			t.Fatalf("recording %d, image %d, cut after %d of %d system calls", recording, i, moment, log.Len())
		}
	}
}

// image is a disk, by its hash, and how many steps had been said: one that is drawn again
// has been judged.
type image struct {
	disk uint64
	past int
}

func stepsOf(t *testing.T, lines []string) (steps []reported) {
	t.Helper()
	for _, line := range lines {
		text, ours := strings.CutPrefix(line, "said ")
		if !ours {
			continue
		}
		var s reported
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

// checkCut opens a store after a power cut, when some of the steps had been said. It must
// hold what it had after the last of them or after the next; true for the latter.
func checkCut(t *testing.T, dir string, past int, steps []reported) bool {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "store.db"), NoSync: true, History: cutsHistory})
	if err != nil {
		t.Errorf("%s: a power cut damaged the file: %v", guarantees.Title("A9"), err)
		return false
	}
	defer closeIt(t, s)
	got, err := contents(s)
	if err != nil {
		t.Errorf("opened, but: %v", err)
		return false
	}
	acknowledged, shown := "", int64(0)
	for _, step := range steps[:past] {
		if shown = max(shown, step.Shown); step.Shown == 0 {
			acknowledged = step.Contents
		}
	}
	if s.Snapshot().Revision() < shown {
		t.Errorf("%s: revision %d was shown, the store is back at %d", guarantees.Title("A1"), shown, s.Snapshot().Revision())
	}
	if got == acknowledged {
		return false
	}
	for _, step := range steps[past:] {
		if step.Shown != 0 {
			continue
		}
		if past == 0 && isEmpty(got) && isEmpty(step.Contents) {
			return false // its name was not on the disk yet, and it has got another UID
		}
		if got != step.Contents {
			t.Errorf("%s: neither the last acknowledged step:\n%s\nnor the next:\n%s\nbut\n%s", brokenInvariant(got, steps[:past], acknowledged, step.Contents), acknowledged, step.Contents, got)
		}
		return true
	}
	t.Errorf("%s: not the last step:\n%s\nbut\n%s", brokenInvariant(got, steps, acknowledged), acknowledged, got)
	return false
}

// changes are what a store tells of its history, behind what it holds: a line each.
var changes = regexp.MustCompile(`(?m)^\d+ [A-Z]+ `)

// brokenInvariant names the invariant that a store breaks whose contents are none of those it could
// have. Its state is the earlier one, or the state is right but not the changes that led to it
// (which a resumed watch reads), or it is no state at all.
func brokenInvariant(got string, earlier []reported, could ...string) string {
	if slices.ContainsFunc(earlier, func(s reported) bool { return s.Contents == got }) {
		return guarantees.Title("A1")
	}
	holds := func(contents string) string {
		if at := changes.FindStringIndex(contents); at != nil {
			return contents[:at[0]]
		}
		return contents
	}
	for _, one := range could {
		if holds(got) == holds(one) {
			return guarantees.Title("W4")
		}
	}
	return guarantees.Title("A9")
}

// isEmpty says whether contents are those of a new store.
func isEmpty(contents string) bool {
	_, numbers, _ := strings.Cut(contents, " ")
	return numbers == "2 1\n"
}

// runUntilCut opens the store and takes some sixty steps, most of them commits.
func runUntilCut(t *testing.T, child string) {
	var seed uint64
	var path string
	if _, err := fmt.Sscan(child, &seed, &path); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	cfg := store.Config{Path: path, History: cutsHistory}
	cfg.OnCommit = func(_ *store.Snapshot, events []store.Event) {
		report(t, reported{Shown: events[len(events)-1].Revision})
	}
	s, stop := start(t, cfg)
	defer stop()
	for step := range 60 {
		after, err := contents(s)
		if err != nil {
			t.Fatal(err)
		}
		report(t, reported{Contents: after})
		if step%9 == 8 {
			oldest := s.Oldest() - 1
			if err := s.Compact(t.Context(), oldest+rng.Int64N(s.Snapshot().Revision()-oldest+1)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		commitSome(t, s, rng)
	}
	after, err := contents(s)
	if err != nil {
		t.Fatal(err)
	}
	report(t, reported{Contents: after})
}

// commitSome writes one to four objects, a large one among them now and then.
func commitSome(t *testing.T, s *store.Store, rng *rand.Rand) {
	var writes []store.Write
	for range 1 + rng.IntN(4) {
		p := small(fmt.Sprintf("web-%d", rng.IntN(8)), fmt.Sprint(rng.IntN(1000)))
		switch rng.IntN(8) {
		case 0:
			p.Annotations = map[string]string{"large": strings.Repeat(fmt.Sprint(rng.IntN(1000)), rng.IntN(4000))}
		case 1:
			p = podNamed(p.Name)
		case 2, 3:
			writes = append(writes, store.Write{Key: keyOf(p), Expect: store.Any})
			continue
		}
		writes = append(writes, write(p, store.Any))
	}
	_, err := s.Commit(t.Context(), store.Commit{Writes: writes, Cause: fmt.Sprintf("op-%d", rng.IntN(1000))})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
}

func report(t *testing.T, s reported) {
	t.Helper()
	line, err := json.Marshal(s)
	if err == nil {
		_, err = fmt.Fprintf(os.Stdout, "said %s\n", line)
	}
	if err != nil {
		t.Fatal(err)
	}
}
