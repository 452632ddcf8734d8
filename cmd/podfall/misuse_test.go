package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/cmd/podfall/cluster"
)

// TestMisuse calls each command with invalid arguments for a cluster of two nodes that is not up.
// Each is rejected by name before anything is done, with the exit code for usage errors.
func TestMisuse(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	layout := cluster.Layout{Root: root}
	options := cluster.Options{Name: "test", Nodes: []string{"node-1", "node-2"}, Speed: 1, Compat: "v1.37", Timing: "default"}
	if _, err := layout.Create(options, makeKeys); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"cut":                             "cut: name who is cut off",
		"cut node-9":                      `spec.parties[0]: Unsupported value: "node-9"`,
		"cut node-1 --latency abc":        `invalid argument "abc" for "--latency" flag`,
		"cut node-1 --latency=-1s":        "spec.latency: Invalid value",
		"cut node-1 --only leases":        `spec.only[0]: Unsupported value: "leases"`,
		"cut node-1 /":                    "spec.groups[1]: Required value",
		"heal":                            "heal: name nodes, or --all",
		"fault":                           "fault: want add, list, clear or points",
		"fault mend":                      "fault mend: want add, list, clear or points",
		"fault add":                       "fault add: want one name for the fault",
		"fault add x":                     "spec.point: Unsupported value",
		"fault add x --point api.request": "spec.effect.type: Unsupported value",
		"fault list all":                  "fault list all: want no argument",
		"fault points all":                "fault points all: want no argument",
		"fault clear":                     "fault clear: name faults, or --all",
		"clock back":                      "clock back: want pause, resume, step DURATION or --speed N",
		"clock pause now":                 "clock pause now: want no argument",
		"clock --speed fast":              `invalid argument "fast" for "--speed" flag`,
		"clock step 5":                    `step "5": want one duration`,
		"crash":                           "crash: name one of",
		"crash bus nobody":                `crash: no process "nobody": want one of bus,`,
		"pause nobody":                    `pause: no process "nobody"`,
		"resume nobody":                   `resume: no process "nobody"`,
		"start bus nobody":                `start: no process "nobody"`,
		"down node-1":                     "down node-1: want no argument",
		"up node-1":                       "up node-1: want no argument",
		"up --nodes many":                 `invalid argument "many" for "--nodes" flag`,
		"status node-1":                   "status node-1: want no argument",
		"report a b":                      "report takes one directory, not 2",
		"report --fact seed":              `--fact "seed": want a name, = and a value`,
		"run":                             "want the file of a scenario",
		"run --late=-5s stk-01.yaml":      "--late -5s: want 0 or more",
		"prepare":                         "--shares: want a directory",
		"prepare --shares x":              "--port 0: want the port",
		"member":                          "member: want the name of one process",
		"member nobody":                   `member: no process "nobody": want one of bus,`,
		"why pod/web pod/db":              "want one object, such as pod/web",
		"why pod/web -o xml":              `--output "xml": want json`,
		"timeline pod/web pod/db":         "want one object, such as pod/web",
		"truth -o xml":                    `--output "xml": want json`,
		"fault add x --point cri.* --effect hang --node node-9":            `--node "node-9": want one of node-1, node-2`,
		"fault add x --point api.request --effect hang --process kubelets": `--process "kubelets": want one of bus,`,
	} {
		var out, errs bytes.Buffer
		args := append([]string{"--data", root}, strings.Fields(line)...)
		code := run(t.Context(), process{args: args, in: strings.NewReader(""), out: &out, errs: &errs, getenv: func(string) string { return "" }})
		if code != exitUsage || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("podfall %s: exit code %d, want %d and %q:\n%s%s", line, code, exitUsage, want, &errs, &out)
		}
	}
}

// TestNearestCommand wants a suggestion only for a word that is at most two letters away from a
// command, and none of a process that people do not start by hand.
func TestNearestCommand(t *testing.T) {
	app, err := newApp(process{getenv: func(string) string { return "" }}, cluster.Layout{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{
		"delte": "delete", "dlete": "delete", "wyh": "why", "gett": "get", "heall": "heal", "tmeline": "timeline",
		"xyz": "", "zz": "", "rollouts-history": "", "gatewy": "", "supervis": "",
	} {
		if got := nearestCommand(append(app.Commands, kubectlHelp(app.Commands)...), word); got != want {
			t.Errorf("for %q %q is suggested, want %q", word, got, want)
		}
	}
}
