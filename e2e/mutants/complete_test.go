package mutants

import (
	"slices"
	"testing"

	"github.com/podfall/podfall/analysis/guarantees"
)

// TestEveryPromiseHasAMutant keeps a promise from being added that no mistake is known to break:
// of one that nothing has ever broken, nobody knows whether its checker can tell.
func TestEveryPromiseHasAMutant(t *testing.T) {
	all, err := Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range guarantees.Invariants() {
		if !slices.ContainsFunc(all, func(m Mutant) bool { return slices.Contains(m.Promises, p.ID) }) {
			t.Errorf("%s: %s: want a mutant whose name has it", p.ID, p.Statement)
		}
	}
}
