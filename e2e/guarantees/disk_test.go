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

	invariants "github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/e2e/guarantees"
	"github.com/podfall/podfall/podfalltest"
)

// TestFailingDisk has the apiserver's disk refuse commits. The apiserver accepts no write from then
// on (A11), and serves soon after a restart (L6), as after any other end.
func TestFailingDisk(t *testing.T) {
	var results []invariants.Result
	synctest.Test(t, func(t *testing.T) {
		cluster := &keptCluster{T: t, dir: t.TempDir(), mayEnd: "apiserver"}
		t.Cleanup(func() { results = cluster.check() })
		r := newRun(cluster, 1)
		r.createSets()
		for range 3 {
			r.createAndDelete()
			r.AddFault("disk", podfalltest.FaultSpec{
				Point: "store.sync", Count: 1, Effect: podfalltest.FaultEffect{Kind: "error", Message: "input/output error"},
			})
			r.createAndDelete()
			r.Crash("apiserver") // its process may still run
			r.ClearFault("disk")
			time.Sleep(30 * time.Second)
			r.Restart("apiserver")
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
	cluster := &keptCluster{T: t, dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		cluster := *cluster
		cluster.T = t
		newRun(&cluster, 1).createSets()
		time.Sleep(time.Minute)
	})
	dir := filepath.Join(cluster.dir, "1")
	judged := func() map[string]invariants.Verdict {
		results, err := guarantees.Check(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := map[string]invariants.Verdict{}
		for _, r := range results {
			verdicts[r.ID] = r.Verdict
		}
		return verdicts
	}
	if got := judged(); got["A9"] != invariants.Held || got["A10"] != invariants.Held {
		t.Errorf("as it was left: A9 is %s, A10 %s, want that both are held", got["A9"], got["A10"])
	}
	file := filepath.Join(dir, "apiserver", "apiserver.db")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte("turns-0"), []byte("turns-8")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := judged(); got["A10"] != invariants.Violated {
		t.Errorf("with other bytes than were written: A10 is %s", got["A10"])
	}
}

// createAndDelete creates and deletes a few pods, if the API accepts it.
func (r *seededRun) createAndDelete() {
	for dice := range 12 {
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		r.request(ctx, r.name(), dice)
		cancel()
		time.Sleep(r.upTo(2 * time.Second))
	}
}

// Errorf implements testing.TB. It ignores the end of the part that the test makes end by itself.
func (k *keptCluster) Errorf(format string, args ...any) {
	if strings.Contains(format, "has ended by itself") && k.mayEnd != "" && slices.Contains(args, any(k.mayEnd)) {
		return
	}
	k.T.Errorf(format, args...)
}
