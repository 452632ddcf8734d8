package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podfall/podfall/analysis/scenario"
	"github.com/podfall/podfall/proto"
)

// scenarioDir is the directory of the scenario files.
const scenarioDir = "../../chaos/scenarios"

// loadAll parses every scenario, by name.
func loadAll(t *testing.T) map[string]scenario.Scenario {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(scenarioDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	stories := map[string]scenario.Scenario{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		story, err := scenario.Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); story.Name != want {
			t.Errorf("%s is called %s", path, story.Name)
		}
		stories[story.Name] = story
	}
	return stories
}

func runScenario(t *testing.T, story scenario.Scenario, harmless bool) (report scenario.Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		compat, err := proto.CompatFor("")
		if err != nil {
			t.Fatal(err)
		}
		report = scenario.Run(t.Context(), story, scenario.Config{
			Cluster: newEnvironment(t, story.Cluster), Compat: compat, Harmless: harmless,
		})
	})
	return report
}

func TestScenarios(t *testing.T) {
	for name, story := range loadAll(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := runScenario(t, story, false)
			if report.Err != nil {
				t.Errorf("after %s: %v", report.Took, report.Err)
			}
		})
	}
}

// TestWithoutFaults runs each scenario without faults. It must fail, because its outcome must be
// caused by the fault.
func TestWithoutFaults(t *testing.T) {
	for name, story := range loadAll(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report := runScenario(t, story, true); report.Err == nil {
				t.Errorf("it succeeds without faults: it shows nothing")
			}
		})
	}
}
