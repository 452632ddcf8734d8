package scenarios

import (
	"context"
	"strings"
	"testing"

	"github.com/podfall/podfall/e2e/guarantees"
)

// checkInvariants checks the histories in a directory: no scenario may violate an invariant.
func checkInvariants(t *testing.T, dir string) {
	results, err := guarantees.Check(context.WithoutCancel(t.Context()), dir)
	if err != nil {
		t.Error(err)
	}
	for _, r := range results {
		if r.Err() != nil && (!skewsClock(t) || r.ID != "D1" && r.ID != "D3") {
			t.Error(r.Err())
		}
	}
}

// skewsClock reports whether the scenario skews the apiserver's clock. Then deletionTimestamps are
// not cluster time, and the history does not show that the skew was injected.
func skewsClock(t *testing.T) bool { return strings.HasSuffix(t.Name(), "/stk-29") }
