package procs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTryShowsTheStoryAndLeavesNothing runs `podfall try` as a newcomer would: the story is
// complete, and neither a process nor a file is left.
func TestTryShowsTheStoryAndLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := tryIn(t, dir)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("podfall try: %v\n%s", err, out)
	}
	for _, want := range []string{
		`pod "web" deleted`, "KBL-64", `pod "stubborn" force deleted`, "orphan", "STK-06 node-cut-off", "pod/db condition met", "The cluster is gone again",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("podfall try does not print %q:\n%s", want, out)
		}
	}
	expectEmpty(t, dir)
}

// TestInterruptedTryLeavesNothing interrupts `podfall try` in the middle of its story.
func TestInterruptedTryLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := tryIn(t, dir)
	output := &lines{}
	command.Stdout = output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod is being deleted", func() bool { return output.contains("$ podfall delete pod web") })
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Error("podfall try, interrupted, ended with exit code 0")
	}
	expectEmpty(t, dir)
}

// tryIn is `podfall try` with its temporary files in a directory.
func tryIn(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	left := &cluster{t: t, data: dir}
	t.Cleanup(func() {
		if pids := left.processes(); len(pids) > 0 {
			t.Errorf("podfall try left the processes %v", pids)
		}
	})
	command := exec.Command(podfall, "try")
	command.Env = append(os.Environ(), "TMPDIR="+dir)
	return command
}

func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "podfall-try-") {
			t.Errorf("podfall try left %s", entry.Name())
		}
	}
}
