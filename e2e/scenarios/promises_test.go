package scenarios

import (
	"context"
	"strings"
	"testing"

	"github.com/podfall/podfall/e2e/guarantees"
)

// keptPromises checks what a world has left in its directory: whatever a scenario breaks, no promise is.
func keptPromises(t *testing.T, dir string) {
	results, err := guarantees.Check(context.WithoutCancel(t.Context()), dir)
	if err != nil {
		t.Error(err)
	}
	for _, r := range results {
		if r.Err() != nil && (!skewed(t) || r.ID != "D1" && r.ID != "D3") {
			t.Error(r.Err())
		}
	}
}

// skewed reports whether the scenario skews the apiserver's clock: then deletionTimestamps
// are not the cluster's time, and a history does not tell that this was done on purpose.
func skewed(t *testing.T) bool { return strings.HasSuffix(t.Name(), "/stk-29") }
