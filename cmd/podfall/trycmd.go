package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
)

// exitBlocked is the exit code of `why` if something blocks the deletion.
const exitBlocked = 3

// tryCommand shows podfall to a newcomer: it plays tryStory in a cluster of its own and removes
// the cluster afterwards.
func tryCommand(p process) *cli.Command {
	return &cli.Command{
		Name: "try", Usage: "see a graceful delete, a forced one and one that hangs, in a cluster that is removed afterwards",
		Action: func(c *cli.Context) error {
			dir, err := os.MkdirTemp("", "podfall-try-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			return playStory(c.Context, p, filepath.Join(dir, "cluster"), tryStory())
		},
	}
}

// storyStep is one command of a story. The story prints the sentence before the command.
type storyStep struct {
	sentence string
	args     string // the command line without the program's name, separated by single spaces
	input    string // what the command reads from standard input
	code     int    // the exit code that the story needs
	silent   bool   // neither the command nor its output is shown
}

// tryStory returns the story of `podfall try`: the three rounds of a graceful delete, a forced
// delete, and a delete behind a cut.
func tryStory() []storyStep {
	return []storyStep{
		{silent: true, args: "up --nodes 2 --detach"},
		{
			sentence: "A Kubernetes cluster runs on this machine: an apiserver, controllers, and two nodes, each with a kubelet\nand a runtime. Nothing was downloaded.",
			args:     "get nodes",
		},
		{sentence: "Three pods. Their containers are scripts: `stubborn` ignores SIGTERM.", args: "apply -f -", input: tryManifest},
		{silent: true, args: "wait --for=condition=Ready pod/web pod/stubborn pod/db --timeout=30s"},
		{args: "get pods -o wide"},
		{
			sentence: "GRACEFUL. Round 1 marks the pod with a deadline. Round 2 stops its containers on the node.\nRound 3: the kubelet confirms, and the object is removed. kubectl waits for that.",
			args:     "delete pod web",
		},
		{args: "timeline pod/web"},
		{
			sentence: "FORCED. The object goes at once. Nobody waits for the node, where the container still runs.",
			args:     "delete pod stubborn --force --grace-period=0",
		},
		{args: "truth"},
		{sentence: "STUCK. node-1 is cut off from the apiserver. A pod on it is deleted, and stays in Terminating.", args: "cut node-1"},
		{args: "delete pod db --wait=false"},
		{sentence: "Why?", args: "why pod/db", code: exitBlocked},
		{sentence: "HEALED. The kubelet hears of the delete, stops the container, and confirms.", args: "heal --all"},
		{args: "wait --for=delete pod/db --timeout=60s"},
		{args: "get pods"},
	}
}

const tryManifest = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeSelector: {kubernetes.io/hostname: node-1}
  containers: [{name: main, image: nginx}]
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn, annotations: {script.podfall.io/main: ignores TERM}}
spec:
  nodeSelector: {kubernetes.io/hostname: node-2}
  containers: [{name: main, image: nginx}]
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  nodeSelector: {kubernetes.io/hostname: node-1}
  containers: [{name: main, image: postgres}]
`

// playStory runs the story's commands in the cluster whose data is in the directory, and takes
// the cluster down. It returns an error if a command ends with another code than the story's.
func playStory(ctx context.Context, p process, data string, story []storyStep) error {
	fmt.Fprintln(p.errs, "podfall: a cluster is starting; it takes some seconds")
	defer func() {
		down := storyStep{args: "down --purge", silent: true}
		_ = down.play(context.WithoutCancel(ctx), p, data) // the story's own error counts
	}()
	for _, step := range story {
		if err := step.play(ctx, p, data); err != nil {
			return err
		}
	}
	fmt.Fprint(p.out, "\nThe cluster is gone again. Your own: podfall up --detach. Your own manifests: podfall apply -f FILE.\n")
	return nil
}

// play prints the sentence and the command, and runs the command.
func (s storyStep) play(ctx context.Context, p process, data string) error {
	if s.sentence != "" {
		fmt.Fprintf(p.out, "\n# %s\n", strings.ReplaceAll(s.sentence, "\n", "\n# "))
	}
	var hidden strings.Builder
	inner := process{args: append([]string{"--data", data}, strings.Split(s.args, " ")...), in: strings.NewReader(s.input), out: p.out, errs: p.errs, getenv: p.getenv, forks: true}
	if s.silent {
		inner.out, inner.errs = io.Discard, &hidden
	} else {
		fmt.Fprintf(p.out, "$ podfall %s\n", s.args)
	}
	code := run(ctx, inner)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case code != s.code:
		return fmt.Errorf("podfall %s ended with exit code %d, want %d\n%s", s.args, code, s.code, hidden.String())
	}
	return nil
}
