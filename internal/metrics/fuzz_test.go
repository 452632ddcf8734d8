package metrics

import (
	"strings"
	"testing"
)

// FuzzCluster: for any texts of two processes, each series line appears with its process, each
// family appears once, and the output consists of whole lines.
func FuzzCluster(f *testing.F) {
	f.Fuzz(func(t *testing.T, one, two []byte) {
		text := string(Merge(map[string][]byte{"a": one, "b": two}))
		if text != "" && !strings.HasSuffix(text, "\n") {
			t.Errorf("%q does not end in a line", text)
		}
		seen := map[string]bool{}
		series := 0
		for line := range strings.Lines(text) {
			if about, ok := strings.CutPrefix(line, "# HELP "); ok {
				name, _, _ := strings.Cut(about, " ")
				if seen[name] {
					t.Errorf("%q is there twice", name)
				}
				seen[name] = true
			}
			if !strings.HasPrefix(line, "#") {
				series++
				if !strings.Contains(line, `{process="a"`) && !strings.Contains(line, `{process="b"`) {
					t.Errorf("%q is nobody's", line)
				}
			}
		}
		if want := seriesOf(one) + seriesOf(two); series != want {
			t.Errorf("%d series of %q and %q, want %d: %q", series, one, two, want, text)
		}
	})
}

// seriesOf counts the whole lines of a text that are series of a family.
func seriesOf(text []byte) int {
	count, family := 0, false
	lines := strings.Split(string(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		family = family || strings.HasPrefix(line, "# HELP ")
		if family && strings.Contains(line, " ") && !strings.HasPrefix(line, "#") {
			count++
		}
	}
	return count
}
