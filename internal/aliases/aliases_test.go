package aliases_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/aliases"
)

func TestCheck(t *testing.T) {
	const most = 10_000
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		document string
		large    bool
		wrong    bool
	}{
		"no aliases":           {document: "a: " + strings.Repeat(long, 20)},
		"JSON":                 {document: `{"a":"*","b":"&"}`},
		"a schedule":           {document: "schedule: '*/5 * * * *'\nurl: 'a?b=c&d=e'"},
		"few aliases":          {document: "a: &a " + long + "\nb: [*a, *a]"},
		"a merge":              {document: "a: &a {x: y}\nb: {<<: *a}"},
		"many of a long text":  {document: "a: &a " + long + "\nb: [" + strings.Repeat("*a, ", 20) + "]", large: true},
		"aliases of aliases":   {document: "a: &a [" + strings.Repeat("x, ", 50) + "]\nb: &b [" + strings.Repeat("*a, ", 50) + "]\nc: [" + strings.Repeat("*b, ", 50) + "]", large: true},
		"an anchor in a key":   {document: "&a " + long + ": x\nb: [" + strings.Repeat("*a, ", 20) + "]", large: true},
		"a circle":             {document: "a: &a [*a]", wrong: true},
		"an alias of nothing":  {document: "a: *b # &", wrong: true},
		"no YAML, but the two": {document: "a: b: & *", wrong: true},
	} {
		err := aliases.Check([]byte(c.document), most)
		if errors.Is(err, aliases.ErrTooLarge) != c.large || (err != nil) != (c.large || c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
