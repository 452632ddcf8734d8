package client

import (
	"slices"
	"strings"
	"testing"
)

// FuzzArrange: a command line that is taken is taken as it is then, has all its words, and its
// arguments behind two dashes; one that is not is told how to get help.
func FuzzArrange(f *testing.F) {
	commands := Commands(Env{})
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		arranged, err := Arrange(nil, commands, words)
		if err != nil {
			if !strings.Contains(err.Error(), "--help' for usage.") {
				t.Errorf("%q: %v", words, err)
			}
			return
		}
		if len(arranged) > 2*len(words)+2 {
			t.Errorf("%q is %q", words, arranged)
		}
		again, err := Arrange(nil, commands, arranged)
		if err != nil || !slices.Equal(again, arranged) {
			t.Errorf("%q is %q, and that is %q (%v)", words, arranged, again, err)
		}
	})
}
