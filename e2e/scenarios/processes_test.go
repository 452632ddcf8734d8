package scenarios

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// defaultSpeed is the clock speed of a scenario. At the command's default of 60, a machine that is
// busy with other tests for a tenth of a second is late by six. At this speed a node is lost only
// if the machine stalls for some eight seconds.
const defaultSpeed = 5

// late is how late the machine may make what is expected within a time. It only limits how long a
// failure takes. TestScenarios checks exact durations.
const late = "1m"

// slowSpeeds returns the speeds of scenarios with short deadlines: a process must do something
// within the given number of cluster seconds.
func slowSpeeds() map[string]float64 {
	return map[string]float64{
		"haz-06": 1, // 8 s between a SIGKILL and an exit
		"haz-14": 1, // 20 s for a pod to go and another to run, before a request arrives late
		"haz-05": 2, // 60 s for a pod to run beside one that is being stopped
		"stk-07": 1, // 20 s for a cut while a program ends
		"stk-26": 1, // 10 s for a crash before the grace is over
		"stk-28": 1, // 12 s to look at a pod before it is killed
		"stk-33": 1, // 3 s without a word, and a kubelet asks anew for what it has missed
	}
}

// TestOverProcesses runs every scenario with `podfall run`, each in a cluster of processes.
func TestOverProcesses(t *testing.T) {
	paces := map[float64][]string{}
	for name := range loadAll(t) {
		own, known := slowSpeeds()[name]
		if !known {
			own = defaultSpeed
		}
		paces[own] = append(paces[own], name)
	}
	var running sync.WaitGroup
	for own, names := range paces {
		running.Go(func() {
			for name, why := range runOverProcesses(t, own, names) {
				t.Errorf("%s at pace %v: %s", name, own, why)
			}
		})
	}
	running.Wait()
}

// runOverProcesses runs scenarios at a speed, several concurrently. It returns the failures by
// name.
func runOverProcesses(t *testing.T, pace float64, names []string) map[string]string {
	slices.Sort(names)
	const program = "../../bin/podfall"
	report := filepath.Join(t.TempDir(), "junit.xml")
	arguments := []string{"run", "--parallel", "8", "--speed", fmt.Sprint(pace), "--late", late, "--junit", report}
	for _, name := range names {
		arguments = append(arguments, filepath.Join(scenarioDir, name+".yaml"))
	}
	output, failed := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
	var suite struct {
		Cases []struct {
			Name    string  `xml:"name,attr"`
			Failure *string `xml:"failure"`
		} `xml:"testcase"`
	}
	data, err := os.ReadFile(report)
	if err == nil {
		err = xml.Unmarshal(data, &suite)
	}
	broken := map[string]string{}
	for _, played := range suite.Cases {
		if name, _, _ := strings.Cut(played.Name, ":"); played.Failure != nil {
			broken[name] = *played.Failure
		}
	}
	if err != nil || len(suite.Cases) != len(names) || (failed != nil) != (len(broken) > 0) {
		t.Errorf("%s %s: %v, %v, %d scenarios were played\n%s", program, strings.Join(arguments, " "), failed, err, len(suite.Cases), output)
	}
	return broken
}
