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

// pace is how many times as fast as the wall a scenario is played. At the usual sixty a
// machine that is busy with other tests for a tenth of a second is late by six. At this one a
// node is lost only if the machine stands still for some eight seconds.
const pace = 5

// late is how late the machine may make what is to happen within a time: that only bounds a
// failure. How long it takes exactly is what TestScenarios looks at.
const late = "1m"

// slower are the paces of scenarios that hold the machine to more than the others do: there
// a process has so many seconds of the cluster to do something in.
func slower() map[string]float64 {
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

// TestOverProcesses plays every scenario with `podfall run`: each in a cluster of processes.
func TestOverProcesses(t *testing.T) {
	paces := map[float64][]string{}
	for name := range all(t) {
		own, known := slower()[name]
		if !known {
			own = pace
		}
		paces[own] = append(paces[own], name)
	}
	var running sync.WaitGroup
	for own, names := range paces {
		running.Go(func() {
			for name, why := range overProcesses(t, own, names) {
				t.Errorf("%s at pace %v: %s", name, own, why)
			}
		})
	}
	running.Wait()
}

// overProcesses plays scenarios at a pace, some at the same time. It returns what became of
// those that did not go as told, by name.
func overProcesses(t *testing.T, pace float64, names []string) map[string]string {
	slices.Sort(names)
	const program = "../../bin/podfall"
	report := filepath.Join(t.TempDir(), "junit.xml")
	arguments := []string{"run", "--parallel", "8", "--speed", fmt.Sprint(pace), "--late", late, "--junit", report}
	for _, name := range names {
		arguments = append(arguments, filepath.Join(dir, name+".yaml"))
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
