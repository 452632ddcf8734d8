//go:build unix

// Package storetest simulates a full disk in tests.
package storetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// aloneVariable names the environment variable with the test that a process was started for.
const aloneVariable = "PODFALL_TEST_ALONE"

// InOwnProcess reports whether the test runs in a process of its own. If not, it reruns the test in
// one, and the test must return. A full disk affects the whole process, including the go command's
// files.
func InOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneVariable) == t.Name() { //nolint:forbidigo // there is no main to tell a test
		return true
	}
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this very program
	test.Env = append(os.Environ(), aloneVariable+"="+t.Name())
	if text, err := test.CombinedOutput(); err != nil {
		t.Errorf("alone: %v\n%s", err, text)
	}
	return false
}

// FullDisk simulates a full disk: no file can grow beyond limit bytes. The returned function ends
// it.
func FullDisk(t *testing.T, limit uint64) (free func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(to syscall.Rlimit) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &to); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: limit, Max: before.Max})
	return func() { set(before) }
}
