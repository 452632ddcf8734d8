package mutants

import (
	"slices"
	"testing"

	"github.com/podfall/podfall/analysis/guarantees"
)

// TestEveryGuaranteeHasAMutant wants a mutant for each guarantee. Without one, nobody knows whether
// the guarantee's checker finds violations.
func TestEveryGuaranteeHasAMutant(t *testing.T) {
	all, err := Read("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range guarantees.Invariants() {
		if !slices.ContainsFunc(all, func(m Mutant) bool { return slices.Contains(m.Guarantees, p.ID) }) {
			t.Errorf("%s: %s: want a mutant whose name has it", p.ID, p.Statement)
		}
	}
}
