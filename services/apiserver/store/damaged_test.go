package store_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/powercut"
	"github.com/podfall/podfall/services/apiserver/store"
)

var damagedCount = flag.Int("damaged", 2000, "damaged files that TestDamagedFiles opens")

// Whatever is wrong with a file: it is refused and the damage is named, or all that it
// serves is right (A10). The sample has changed since the copy of it was made, so that
// old sectors are among the damage.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	cfg := sample(t)
	earlier := readFile(t, cfg.Path)
	s, stop := start(t, cfg)
	for i := range 40 {
		put(t, s, write(small(fmt.Sprintf("web-%d", i%11), fmt.Sprintf("later-%d", i)), store.Any))
	}
	stop()
	want := baseline(t, cfg)
	sound := readFile(t, cfg.Path)
	sound = sound[:used(sound)]
	refused := 0
	for i := range *damagedCount {
		rng := rand.New(rand.NewPCG(6, uint64(i)))
		what, damaged := powercut.Damage(sound, earlier, rng.IntN)
		if err := os.WriteFile(cfg.Path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if openDamaged(t, cfg, want) != "" {
			refused++
		}
		if t.Failed() {
			t.Fatalf("%s: file %d: %s", guarantees.Title("A10"), i, what)
		}
	}
	t.Logf("figures: %d of %d files refused", refused, *damagedCount)
	if refused < *damagedCount/4 || refused == *damagedCount {
		t.Errorf("%d of %d files refused: is the damage where the store looks?", refused, *damagedCount)
	}
}
