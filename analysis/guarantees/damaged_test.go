package guarantees_test

import (
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/analysis/report"
	"github.com/podfall/podfall/analysis/timeline"
	"github.com/podfall/podfall/internal/history"
)

const (
	// maxTime limits the time to read a history of some dozens of events, and maxMemory the memory
	// in bytes. Both are far more than usual.
	maxTime   = 30 * time.Second
	maxMemory = 64 << 20
)

// FuzzDamaged: a history with any damage is checked, drawn and told, or reported as proving nothing
// or incomplete, in little time and memory.
func FuzzDamaged(f *testing.F) {
	made := guarantees.HandMadeHistories()
	var others []history.Event
	for _, e := range made {
		others = append(others, e.Log.Events...)
	}
	f.Fuzz(func(t *testing.T, which uint16, bits byte, program []byte) {
		if len(program) > 4*64 {
			return // so much damage leaves nothing of it
		}
		before := made[int(which)%len(made)]
		h := &damagedHistory{events: slices.Clone(before.Log.Events), others: others}
		h.applyAll(program)
		e := h.evidence(bits, before)
		defer time.AfterFunc(maxTime, func() { panic(fmt.Sprintf("after %v: %+v", maxTime, e.Log.Events)) }).Stop()
		taken := allocated()
		readEverywhere(t, e, bits)
		if taken = allocated() - taken; taken > maxMemory {
			t.Errorf("%d events took %d MiB", len(e.Log.Events), taken>>20)
		}
	})
}

// readEverywhere has every reader of histories read one.
func readEverywhere(t *testing.T, e guarantees.Evidence, bits byte) {
	t.Helper()
	results, err := guarantees.Check(e)
	if err != nil && !errors.Is(err, guarantees.ErrNothing) && !errors.Is(err, guarantees.ErrIncomplete) {
		t.Errorf("%v: want that it proves nothing, or is incomplete", err)
	}
	for _, r := range results {
		if r.Verdict == guarantees.Violated && (r.First == nil || r.Err().Error() == "") || r.Violations > r.Cases {
			t.Errorf("%+v", r)
		}
	}
	guarantees.EndState(e)
	timeline.Find(e.Log.Events, "default/web", "")
	page, nothing := report.New(report.Input{Log: e.Log, Results: results, Unproven: err})
	if nothing == nil && bits&withPage != 0 {
		nothing = page.Write(io.Discard)
	}
	if nothing != nil && !errors.Is(nothing, report.ErrNothing) {
		t.Error(nothing)
	}
}

// allocated returns how much memory was allocated so far, in bytes.
func allocated() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
