package guarantees

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	goruntime "runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of docs/dev/guarantees.md")

// TestTable compares the table of docs/dev/guarantees.md with the code.
func TestTable(t *testing.T) {
	const path, begin, end = "../../docs/dev/guarantees.md", "<!-- table -->\n", "<!-- end -->\n"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(data), begin)
	_, tail, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s: want a table between %q and %q", path, begin, end)
	}
	want := head + begin + table() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if want != string(data) {
		t.Errorf("%s is not what the code says; go test ./analysis/guarantees -update", path)
	}
}

func table() string {
	var text strings.Builder
	text.WriteString("| id | invariant | checker | checked from | not checked |\n|---|---|---|---|---|\n")
	for _, p := range Invariants() {
		checker, missing := "", p.Unchecked
		if p.check != nil {
			full := goruntime.FuncForPC(reflect.ValueOf(p.check).Pointer()).Name()
			checker, missing = "`"+full[strings.LastIndexByte(full, '.')+1:]+"`", p.Limits
		}
		events := make([]string, 0, len(p.Facts))
		for _, name := range p.Facts {
			events = append(events, string(name))
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", p.ID, p.Statement, checker, strings.Join(events, ", "), missing)
	}
	return text.String()
}
