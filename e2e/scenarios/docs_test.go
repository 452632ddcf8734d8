package scenarios

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podfall/podfall/analysis/scenario"
)

var update = flag.Bool("update", false, "write docs/scenarios.md anew")

const page = "../../docs/scenarios.md"

const head = `# Scenarios

Each is a file of [chaos/scenarios](../chaos/scenarios) that ` + "`podfall run FILE`" + ` plays in a cluster of its own, in seconds: it breaks
something, deletes something, compares what people and programs then see with what the file says, and mends it. On a machine
that is busy ` + "`--late 5s`" + ` gives what is to happen within a time five seconds more, on the wall. This page is made of the files;
their format is that of package [analysis/scenario](../analysis/scenario/scenario.go).
`

// TestDocs checks that docs/scenarios.md matches the files.
func TestDocs(t *testing.T) {
	stories := loadAll(t)
	var text strings.Builder
	text.WriteString(head)
	for _, part := range []struct{ prefix, title string }{
		{"stk-", "What keeps a pod in Terminating"},
		{"haz-", "What a forced delete can do"},
	} {
		fmt.Fprintf(&text, "\n## %s\n\n| scenario | what happens | `podfall why` names |\n|---|---|---|\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(stories)) {
			if strings.HasPrefix(name, part.prefix) {
				text.WriteString(tableRow(stories[name]))
			}
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(filepath.Clean(page))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != text.String() {
		t.Error("docs/scenarios.md is not what chaos/scenarios says: go test ./e2e/scenarios -run TestDocs -update")
	}
}

// tableRow returns a scenario's row.
func tableRow(story scenario.Scenario) string {
	var named []string
	for _, step := range story.Steps {
		if step.Expect == nil || step.Expect.Why == nil {
			continue
		}
		for _, cause := range *step.Expect.Why {
			if !slices.Contains(named, cause) {
				named = append(named, cause)
			}
		}
	}
	about := strings.Join(strings.Fields(story.About), " ")
	return fmt.Sprintf("| [%s](../chaos/scenarios/%s.yaml) | **%s.** %s | %s |\n",
		strings.ToUpper(story.Name), story.Name, story.Title, about, strings.ToUpper(strings.Join(named, ", ")))
}

// TestEveryCauseHasItsScenario checks that there is a file for each cause and hazard of the
// catalogue.
func TestEveryCauseHasItsScenario(t *testing.T) {
	stories := loadAll(t)
	for prefix, last := range map[string]int{"stk": 34, "haz": 15} {
		for number := 1; number <= last; number++ {
			if name := fmt.Sprintf("%s-%02d", prefix, number); stories[name].Name == "" {
				t.Errorf("there is no scenario %s", name)
			}
		}
	}
}
