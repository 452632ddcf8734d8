package why

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of docs/why.md")

const (
	page  = "../../docs/why.md"
	begin = "<!-- The table is made by `go test ./analysis/why -update`. -->\n"
	end   = "<!-- The end of the table. -->\n"
)

// TestPage compares the table of docs/why.md with the catalogue.
func TestPage(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: want the table between its two comments", page)
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(data) {
		t.Errorf("%s does not say what the catalogue does: run go test ./analysis/why -update", page)
	}
}

func table() string {
	var out strings.Builder
	out.WriteString("\n| cause | what you see | who acts | what resolves it | what forcing leaves |\n|---|---|---|---|---|\n")
	for _, c := range Causes() {
		fmt.Fprintf(&out, "| %s `%s` | %s | %s | %s | %s |\n", c.ID, c.Name, c.Means, c.Who, c.Unblocks, c.Forcing)
	}
	out.WriteString("\n")
	return out.String()
}

// TestSchema requires the schema to describe exactly the fields of a report.
func TestSchema(t *testing.T) {
	data, err := os.ReadFile("../../docs/why.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
		Defs       map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	same := func(what string, described map[string]any, typ reflect.Type, more ...string) {
		names := map[string]bool{}
		for _, name := range more {
			names[name] = true
		}
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names[name] = true
		}
		for name := range names {
			if described[name] == nil {
				t.Errorf("%s: %s is not described", what, name)
			}
		}
		for name := range described {
			if !names[name] {
				t.Errorf("%s: %s is described, and there is none", what, name)
			}
		}
	}
	same("answer", schema.Properties, reflect.TypeFor[Report](), "schema", "blocked")
	same("report", schema.Defs["report"].Properties, reflect.TypeFor[Report]())
	same("finding", schema.Defs["finding"].Properties, reflect.TypeFor[Finding]())
	same("source", schema.Defs["source"].Properties, reflect.TypeFor[Source]())
}
