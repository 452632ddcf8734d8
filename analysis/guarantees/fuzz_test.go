package guarantees

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// FuzzCheck checks arbitrary histories. The verdicts must agree with their counts, each violation
// needs a counter-example of at most ten lines, and a second check must say the same.
func FuzzCheck(f *testing.F) {
	keeping := validHistories()
	for _, what := range slices.Sorted(maps.Keys(keeping)) {
		f.Add(encode(f, keeping[what]))
	}
	for _, c := range slices.Concat(storeViolations(), watchViolations(), deletionViolations(), nodeViolations(), otherViolations(), livenessViolations(), explanationViolations(), readViolations(), detailViolations()) {
		f.Add(encode(f, c.history))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		events, torn := history.Page{Lines: string(text)}.Events()
		evidence := Evidence{Log: history.Merge(events, torn)}
		results, err := Check(evidence)
		again, wrong := Check(Evidence{Log: history.Merge(slices.Clone(events), torn)})
		if (err == nil) != (wrong == nil) || err == nil && !reflect.DeepEqual(verdicts(results), verdicts(again)) {
			t.Errorf("%v (%v), and again %v (%v)", verdicts(results), err, verdicts(again), wrong)
		}
		if err != nil {
			if err.Error() == "" || len(results) > 0 {
				t.Errorf("%d results, and %v", len(results), err)
			}
			return
		}
		for _, r := range results {
			switch {
			case r.Verdict == Violated && (r.Violations == 0 || r.First == nil || len(r.First.Lines()) > maxEventLines+2 || r.Err() == nil),
				r.Verdict == Held && (r.Cases == 0 || r.Violations > 0 || r.First != nil || r.Err() != nil),
				r.Verdict == NotCheckable && (r.Violations > 0 || r.Why == "" || r.Err() != nil):
				t.Errorf("%+v", r)
			}
		}
		if apart := DiffStates(EndState(evidence), EndState(evidence)); len(apart) > 0 {
			t.Errorf("its end is not itself: %q", apart)
		}
	})
}

// encode returns a history as its processes write it.
func encode(f *testing.F, forged *builder) []byte {
	f.Helper()
	var text bytes.Buffer
	for _, event := range forged.evidence.Log.Events {
		line, err := json.Marshal(event)
		if err != nil {
			f.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	return text.Bytes()
}

func verdicts(results []Result) map[string][2]int {
	all := map[string][2]int{}
	for _, r := range results {
		all[r.ID+" "+string(r.Verdict)] = [2]int{r.Cases, r.Violations}
	}
	return all
}
