package shim

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// killSession kills a command that was started in a session of its own, and everything
// that is in it. Each process is held by a descriptor while it is looked at, so that the
// signal cannot reach another one that got its number.
func killSession(leader int) {
	for range passes {
		if !killOnce(leader) {
			return
		}
	}
}

// killOnce reports whether there was anyone to kill: one that forks meanwhile is found at
// the next pass.
func killOnce(leader int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	found := false
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !inSession(pid, leader) {
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has gone
		}
		if inSession(pid, leader) && unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) == nil {
			found = true
		}
		_ = unix.Close(pidfd)
	}
	return found
}

// inSession reports whether a process lives and belongs to a session.
func inSession(pid, leader int) bool {
	said, err := stat(pid)
	return err == nil && said.Session == leader && said.State != "Z"
}
