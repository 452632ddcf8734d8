package guarantees_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	promises "github.com/podfall/podfall/internal/guarantees"
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
