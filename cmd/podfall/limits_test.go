package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimits lowers this process's limit of open files until opening fails, and restores it.
func TestLimits(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	most := func() int {
		var files []*os.File
		defer func() {
			for _, file := range files {
				_ = file.Close()
			}
		}()
		for len(files) < 100 {
			file, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			files = append(files, file)
		}
		return len(files)
	}
	var l limits
	t.Cleanup(func() { l.set(nil) })
	l.set(nil)
	if got := most(); got != 100 {
		t.Fatalf("%d files without a limit", got)
	}
	l.set([]string{"nofile=60", "nofile=40"})
	if got := most(); got >= 40 {
		t.Errorf("%d files with a limit of 40", got)
	}
	l.set([]string{"nofile=1000000000"})
	l.set(nil)
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil || now != before || most() != 100 {
		t.Errorf("the limit is %v, %v, and was %v", now, err, before)
	}
}
