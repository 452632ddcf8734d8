package shim

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// killSession kills a command with its own session, and every process in that session. A pidfd
// holds each process while it is checked, so that the signal cannot hit a process that got a reused
// PID.
func killSession(leader int) {
	for range maxPasses {
		if !killSessionOnce(leader) {
			return
		}
	}
}

// killSessionOnce kills a session's processes and reports whether there were any. A process forked
// meanwhile is found by the next pass.
func killSessionOnce(leader int) bool {
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
			continue // it has exited
		}
		if inSession(pid, leader) && unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) == nil {
			found = true
		}
		_ = unix.Close(pidfd)
	}
	return found
}

// inSession reports whether a live process belongs to a session.
func inSession(pid, leader int) bool {
	status, err := readStat(pid)
	return err == nil && status.Session == leader && status.State != "Z"
}
