package aliases_test

import (
	"errors"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/aliases"
)

// FuzzCheck: a document that has aliases and is taken is not much larger in JSON than it may
// be, and one that is refused for its size is refused for any smaller one.
func FuzzCheck(f *testing.F) {
	f.Fuzz(func(t *testing.T, document []byte, most uint16) {
		err := aliases.Check(document, int(most))
		if errors.Is(err, aliases.ErrTooLarge) {
			if again := aliases.Check(document, int(most)/2); !errors.Is(again, aliases.ErrTooLarge) {
				t.Errorf("%q has more than %d bytes, and for half of them: %v", document, most, again)
			}
			return
		}
		if err != nil {
			return
		}
		text, err := yaml.YAMLToJSON(document)
		if err != nil {
			return
		}
		// A byte is written as six, such as \u0001, a number as its digits, and there is
		// punctuation; what has no aliases is as long as it is.
		const wider = 8
		if room := wider * (max(int(most), len(document)) + 1); len(text) > room {
			t.Errorf("%q was taken for %d bytes, and is %d", document, most, len(text))
		}
	})
}
