package guarantees_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	promises "github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/e2e/guarantees"
	"github.com/podfall/podfall/podfalltest"
)

// TestFailingDisk has the apiserver's disk refuse commits. The apiserver accepts no write from then
// on (A11), and serves soon after a restart (L6), as after any other end.
func TestFailingDisk(t *testing.T) {
	var results []promises.Result
	synctest.Test(t, func(t *testing.T) {
		kept := &keptCluster{T: t, dir: t.TempDir(), mayEnd: "apiserver"}
		t.Cleanup(func() { results = kept.check() })
		l := newRun(kept, 1)
		l.createSets()
		for range 3 {
			l.createAndDelete()
			l.AddFault("disk", podfalltest.FaultSpec{
				Point: "store.sync", Count: 1, Effect: podfalltest.FaultEffect{Kind: "error", Message: "input/output error"},
			})
			l.createAndDelete()
			l.Crash("apiserver") // what is left of it
			l.ClearFault("disk")
			time.Sleep(30 * time.Second)
			l.Restart("apiserver")
		}
		time.Sleep(5 * time.Minute)
	})
	for _, r := range results {
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		if r.Cases == 0 && slices.Contains([]string{"A11", "L6"}, r.ID) {
			t.Errorf("no case of %s, %s", r.ID, r.Statement)
		}
	}
}

// TestDamagedDatabase damages the database that a cluster left behind. The file is judged together
// with the histories (A9, A10).
func TestDamagedDatabase(t *testing.T) {
	kept := &keptCluster{T: t, dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		kept := *kept
		kept.T = t
		newRun(&kept, 1).createSets()
		time.Sleep(time.Minute)
	})
	left := filepath.Join(kept.dir, "1")
	judged := func() map[string]promises.Verdict {
		results, err := guarantees.Check(t.Context(), left)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := map[string]promises.Verdict{}
		for _, r := range results {
			verdicts[r.ID] = r.Verdict
		}
		return verdicts
	}
	if got := judged(); got["A9"] != promises.Held || got["A10"] != promises.Held {
		t.Errorf("as it was left: A9 is %s, A10 %s, want that both are held", got["A9"], got["A10"])
	}
	file := filepath.Join(left, "apiserver", "apiserver.db")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte("turns-0"), []byte("turns-8")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := judged(); got["A10"] != promises.Violated {
		t.Errorf("with other bytes than were written: A10 is %s", got["A10"])
	}
}

// createAndDelete creates and deletes a few pods, if the API accepts it.
func (l *seededRun) createAndDelete() {
	for dice := range 12 {
		ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
		l.request(ctx, l.name(), dice)
		cancel()
		time.Sleep(l.upTo(2 * time.Second))
	}
}

// Errorf implements testing.TB. It ignores the end of the part that the test makes end by itself.
func (k *keptCluster) Errorf(format string, args ...any) {
	if strings.Contains(format, "has ended by itself") && k.mayEnd != "" && slices.Contains(args, any(k.mayEnd)) {
		return
	}
	k.T.Errorf(format, args...)
}
