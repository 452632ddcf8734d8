package procs

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
)

// nodeStatus returns a node's STATUS column.
func (c *cluster) nodeStatus(node string) string {
	for line := range strings.Lines(c.must("get", "nodes")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == node {
			return fields[1]
		}
	}
	return "none"
}

// states returns the states of processes and links, by name.
func (c *cluster) states() map[string]string {
	c.t.Helper()
	var status struct {
		Processes []struct{ Name, State string }
		Links     []struct{ Party, State string }
	}
	if err := json.Unmarshal([]byte(c.must("status", "--output", "json")), &status); err != nil {
		c.t.Fatal(err)
	}
	states := map[string]string{}
	for _, process := range status.Processes {
		states[process.Name] = process.State
	}
	for _, link := range status.Links {
		states["link of "+link.Party] = link.State
	}
	return states
}

// TestCuts cuts a node and heals it; the owner of one cut is killed.
func TestCuts(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2", "--speed", "20")
	c.must("cut", "node-1", "--for", "0s")
	eventually(t, "status shows the cut of node-1 alone", func() bool { // status waits a second for the bus
		got := c.states()
		return got["link of node-1"] == "cut" && got["link of node-2"] == "whole"
	})
	eventually(t, "node-1 is NotReady, and node-2 is not", func() bool { // a busy machine may make node-2 NotReady for a moment
		return c.nodeStatus("node-1") == "NotReady" && c.nodeStatus("node-2") == "Ready"
	})
	c.must("heal", "--all")
	eventually(t, "node-1 is Ready", func() bool { return c.nodeStatus("node-1") == "Ready" })

	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	author := exec.CommandContext(ctx, podfall, "--data", c.data, "cut", "apiserver", "--hold")
	if err := author.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the apiserver is cut off", func() bool { return c.states()["link of apiserver"] == "cut" })
	if err := author.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = author.Wait() // it was killed
	eventually(t, "the cut ends with its author", func() bool { return c.states()["link of apiserver"] == "whole" })
	eventually(t, "the apiserver answers", func() bool { return c.run("get", "nodes").code == 0 })

	for want, arguments := range map[string][]string{
		"spec.parties[0]":        {"cut", "node-9"},
		"spec.latency":           {"cut", "node-1", "--latency=-1s"},
		"spec.only[0]":           {"cut", "node-1", "--only", "lies"},
		"--flap":                 {"cut", "node-1", "--flap", "often"},
		`cut of "node-1"`:        {"heal", "node-1"},
		"spec.point":             {"fault", "add", "f", "--point", "nowhere", "--effect", "hang"},
		"spec.duration":          {"fault", "add", "f", "--point", "volume.mount", "--effect", "hang", "--for=-1s"},
		`fault "f"`:              {"fault", "clear", "f"},
		`no process "kubelet"`:   {"crash", "kubelet"},
		"apiserver runs already": {"start", "apiserver"},
	} {
		if out := c.run(arguments...); out.code == 0 || !strings.Contains(out.stderr, want) {
			t.Errorf("%v: %+v, want an error that says %q", arguments, out, want)
		}
	}
}

// TestFaultObjects makes unmounting fail by a fault object, and clears the fault by the command.
func TestFaultObjects(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	file := filepath.Join(t.TempDir(), "fault.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: podfall.io/v1alpha1
kind: Fault
metadata: {name: busy}
spec: {point: cri.StopContainer, where: {pod: web}, effect: {type: hang}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kind is known", func() bool { return c.run("apply", "-f", file).code == 0 })
	eventually(t, "it is in force", func() bool { return strings.Contains(c.must("get", "faults"), "Active") })
	c.runPod("web", "on TERM exits 0 after 0s", 5)
	c.must("delete", "pod", "web", "--wait=false")
	eventually(t, "the kubelet has asked", func() bool { return strings.Contains(c.must("events", "--for", "pod/web"), "Killing") })
	if c.runtimesLogged("signal=SIGTERM") {
		t.Error("StopContainer hangs, and a signal was sent")
	}
	c.must("fault", "clear", "busy")
	c.must("wait", "--for=delete", "pod/web", waitFlag)
	eventually(t, "it says that it has ended", func() bool { return strings.Contains(c.must("get", "faults"), "Ended") })
}

// TestEveryProcessIsCrashedAndPaused crashes, starts, pauses and resumes each process.
func TestEveryProcessIsCrashedAndPaused(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	for _, name := range []string{"runtime/node-1", "kubelet/node-1", "gateway", "controllers", "apiserver", "bus"} {
		c.must("pause", name)
		if got := c.states()[name]; got != "paused" {
			t.Errorf("%s is %s, want it paused", name, got)
		}
		const unknown = "What is cut or broken is not known: the bus, which is paused,"
		if recorded := c.must("status"); strings.Contains(recorded, unknown) != (name == "bus") {
			t.Errorf("while %s is paused, status says\n%s", name, recorded)
		}
		c.must("resume", name)
		if got := c.states()[name]; got != "running" {
			t.Errorf("%s is %s, want it running", name, got)
		}
		c.must("crash", name)
		if got := c.states()[name]; got != "ended" {
			t.Errorf("%s is %s, want it ended", name, got)
		}
		c.must("start", name)
		if got := c.states()[name]; got != "running" {
			t.Errorf("%s is %s, want it running again", name, got)
		}
	}
	eventually(t, "the cluster works", func() bool { return c.nodeStatus("node-1") == "Ready" })
	c.runPod("web", "on TERM exits 0 after 0s", 5)
	c.must("delete", "pod", "web")
	c.must("pause", "kubelet/node-1") // down must stop a paused process too
}

// TestProcessRecordsStall pauses a kubelet with SIGSTOP until its node is NotReady, like a machine
// without a free processor. The kubelet must detect and record the stall itself.
func TestProcessRecordsStall(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--speed", "20")
	const name = "kubelet/node-1"
	eventually(t, "the node is ready", func() bool { return c.nodeStatus("node-1") == "Ready" })
	c.must("pause", name)
	from := clock.Monotonic()
	eventually(t, "the node is not ready", func() bool { return c.nodeStatus("node-1") == "NotReady" })
	to := clock.Monotonic()
	c.must("resume", name)
	eventually(t, "it says that it stood still", func() bool {
		log, err := history.Read(layouts.Layout{Root: c.data}.History())
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(log.Events, func(e history.Event) bool {
			_, stalled := e.Fact.(history.Stall)
			return stalled && e.Process == name && e.Began < from && e.Ended > to
		})
	})
}
