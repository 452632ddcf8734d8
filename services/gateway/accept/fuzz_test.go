package accept

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzClauses: each range of a header is there, the most wanted first, and those that are
// wanted as much in their order; a range covers itself, and all of its kind if it ends so.
func FuzzClauses(f *testing.F) {
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", header)
		clauses := Clauses(r)
		if want := strings.Count(header, ",") + 1; len(clauses) != want {
			t.Fatalf("%q: %d ranges, want %d", header, len(clauses), want)
		}
		for i, clause := range clauses {
			for _, later := range clauses[i+1:] {
				if !(clause.weight >= later.weight) {
					t.Fatalf("%q: %q of %v is before %q of %v", header, clause.Media, clause.weight, later.Media, later.weight)
				}
			}
			if !clause.Covers(clause.Media) {
				t.Errorf("%q does not cover itself", clause.Media)
			}
			if kind, all := strings.CutSuffix(clause.Media, "/*"); all && !clause.Covers(kind+"/x") {
				t.Errorf("%q does not cover %s/x", clause.Media, kind)
			}
		}
	})
}
