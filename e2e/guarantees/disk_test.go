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

// TestFailingDisk has the disk of the apiserver refuse commits: it takes no write from then on
// (A11), and serves soon when it is started again (L6), as after any other end.
func TestFailingDisk(t *testing.T) {
	var results []promises.Result
	synctest.Test(t, func(t *testing.T) {
		kept := &keeping{T: t, dir: t.TempDir(), ends: "apiserver"}
		t.Cleanup(func() { results = kept.check() })
		l := newLife(kept, 1)
		l.sets()
		for range 3 {
			l.writes()
			l.AddFault("disk", podfalltest.FaultSpec{
				Point: "store.sync", Count: 1, Effect: podfalltest.FaultEffect{Kind: "error", Message: "input/output error"},
			})
			l.writes()
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
			t.Errorf("no case of %s, %s", r.ID, r.Promise)
		}
	}
}

// TestDamagedDatabase damages the database that a cluster has left behind: the file is judged
// with the histories beside it (A9, A10), whoever reads them by EvidenceOf.
func TestDamagedDatabase(t *testing.T) {
	kept := &keeping{T: t, dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		kept := *kept
		kept.T = t
		newLife(&kept, 1).sets()
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
	if got := judged(); got["A10"] != promises.Broken {
		t.Errorf("with other bytes than were written: A10 is %s", got["A10"])
	}
}

// writes creates and deletes a few pods, if the API takes it.
func (l *life) writes() {
	for dice := range 12 {
		ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Second)
		l.ask(ctx, l.name(), dice)
		cancel()
		time.Sleep(l.upTo(2 * time.Second))
	}
}

// Errorf implements testing.TB. What a test makes end by itself may.
func (k *keeping) Errorf(format string, args ...any) {
	if strings.Contains(format, "has ended by itself") && k.ends != "" && slices.Contains(args, any(k.ends)) {
		return
	}
	k.T.Errorf(format, args...)
}
