package store_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/podfall/podfall/internal/powercut"
	"github.com/podfall/podfall/services/runtime/store"
)

var damagedCount = flag.Int("damaged", 1000, "damaged files that TestDamagedFiles opens")

// TestDamagedFiles: a damaged file is refused with the damage named, or everything committed is
// there.
func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.db")
	s, _, end := openStore(t, store.Config{Path: path})
	want := fill(t, s)
	earlier := must[[]byte](t)(os.ReadFile(path))
	end()
	s, _, end = openStore(t, store.Config{Path: path})
	for range 20 {
		commit(t, s, note("signal", "c2"))
	}
	history := historyText(t, s)
	end()
	sound := must[[]byte](t)(os.ReadFile(path))
	path = filepath.Join(t.TempDir(), "damaged.db")
	refused := 0
	for i := range *damagedCount {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		what, damaged := powercut.Damage(sound, earlier, rng.IntN)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, contents, err := store.Open(store.Config{Path: path, NoSync: true})
		if err != nil {
			damage, ok := errors.AsType[*store.DamageError](err)
			if !ok || damage.Record == "" || damage.What == "" {
				t.Fatalf("file %d (%s): %v, want a DamageError", i, what, err)
			}
			refused++
			continue
		}
		wantStore(t, s, contents, want, history)
		if t.Failed() {
			t.Fatalf("file %d: %s", i, what)
		}
	}
	t.Logf("figures: %d of %d files refused", refused, *damagedCount)
	if refused < *damagedCount/4 || refused == *damagedCount {
		t.Errorf("%d of %d files refused: is the damage where the store looks?", refused, *damagedCount)
	}
}
