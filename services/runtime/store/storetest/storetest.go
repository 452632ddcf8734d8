//go:build unix

// Package storetest lets the disk run full under a test.
package storetest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// variable names, in the environment of a process, the test that it was started for.
const variable = "PODFALL_TEST_ALONE"

// Alone reports whether the test has a process to itself; if not, it gives it one, and
// the test is to return. A full disk is one for everybody in the process, and the go
// command's own files are among them.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() { //nolint:forbidigo // there is no main to tell a test
		return true
	}
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this very program
	test.Env = append(os.Environ(), variable+"="+t.Name())
	if text, err := test.CombinedOutput(); err != nil {
		t.Errorf("alone: %v\n%s", err, text)
	}
	return false
}

// FullDisk makes the disk as good as full: nothing can be written beyond limit bytes of
// any file. The returned function frees it.
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
