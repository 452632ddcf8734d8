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
	// endless is how long a history of some dozens of events may be looked at, and plenty what
	// memory may be taken meanwhile; both are far more than is usual.
	endless = 30 * time.Second
	plenty  = 64 << 20
)

// FuzzDamaged: a history that is damaged, in whatever way, is judged, drawn and told, or said to
// prove nothing or to be incomplete, in little time and memory.
func FuzzDamaged(f *testing.F) {
	made := guarantees.Made()
	var others []history.Event
	for _, e := range made {
		others = append(others, e.Log.Events...)
	}
	f.Fuzz(func(t *testing.T, which uint16, bits byte, program []byte) {
		if len(program) > 4*64 {
			return // so much damage leaves nothing of it
		}
		before := made[int(which)%len(made)]
		h := &patient{events: slices.Clone(before.Log.Events), others: others}
		h.suffer(program)
		e := h.evidence(bits, before)
		defer time.AfterFunc(endless, func() { panic(fmt.Sprintf("after %v: %+v", endless, e.Log.Events)) }).Stop()
		taken := allocated()
		bear(t, e, bits)
		if taken = allocated() - taken; taken > plenty {
			t.Errorf("%d events took %d MiB", len(e.Log.Events), taken>>20)
		}
	})
}

// bear has everybody who reads histories read one.
func bear(t *testing.T, e guarantees.Evidence, bits byte) {
	t.Helper()
	results, err := guarantees.Check(e)
	if err != nil && !errors.Is(err, guarantees.ErrNothing) && !errors.Is(err, guarantees.ErrIncomplete) {
		t.Errorf("%v: want that it proves nothing, or is incomplete", err)
	}
	for _, r := range results {
		if r.Verdict == guarantees.Broken && (r.First == nil || r.Err().Error() == "") || r.Times > r.Cases {
			t.Errorf("%+v", r)
		}
	}
	guarantees.End(e)
	timeline.Of(e.Log.Events, "default/web", "")
	page, nothing := report.New(report.Input{Log: e.Log, Results: results, Unproven: err})
	if nothing == nil && bits&withPage != 0 {
		nothing = page.Write(io.Discard)
	}
	if nothing != nil && !errors.Is(nothing, report.ErrNothing) {
		t.Error(nothing)
	}
}

// allocated is how much memory was taken so far, in bytes.
func allocated() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
