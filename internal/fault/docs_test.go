package fault

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/faults.md")

// The table of points in the documentation stands between these lines.
const (
	docs       = "../../docs/faults.md"
	tableBegin = "<!-- the table is made of internal/fault/point.go: go test ./internal/fault -update -->\n"
	tableEnd   = "<!-- end of the table -->\n"
)

// TestTheDocumentationListsAllPoints keeps docs/faults.md as the catalogue is.
func TestTheDocumentationListsAllPoints(t *testing.T) {
	data, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + tableBegin + pointsTable() + tableEnd + after
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is not as the points are; run with -update", docs)
	}
	if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func pointsTable() string {
	var b strings.Builder
	b.WriteString("| point | what is done there | effects | selected by | rows | causes |\n|---|---|---|---|---|---|\n")
	for _, info := range Points() {
		var kinds, rows []string
		for _, kind := range info.Kinds {
			text := string(kind)
			if kind == Value {
				text += " (" + strings.Join(info.Values, ", ") + ")"
			}
			kinds = append(kinds, text)
		}
		for _, row := range info.Rows {
			rows = append(rows, fmt.Sprint(row))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", info.Point, info.Description, strings.Join(kinds, ", "),
			strings.Join(info.Where, ", "), strings.Join(rows, ", "), strings.Join(info.Causes, ", "))
	}
	return b.String()
}
