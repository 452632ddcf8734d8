package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Marker is the environment variable that identifies all descendants of a container's program, also
// those that were reparented.
const Marker = "PODFALL_CONTAINER"

// killMarked kills the processes left behind by a killed shim: every process with the marker in its
// environment. A pidfd holds each process while it is checked, so that the signal cannot hit a
// process that got a reused PID.
func killMarked(marker string) error {
	for range maxPasses {
		found, unsure, err := findMarked(marker)
		if err != nil || len(found) == 0 && !unsure {
			return err
		}
		if len(found) == 0 {
			_, _ = unix.Poll(nil, passPause) // an exec is under way
		}
		for _, pidfd := range found {
			err = errors.Join(err, killAndWait(pidfd))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxPasses bounds the scans: a process may start others before it is killed. The pause, in
// milliseconds, is for processes in the middle of an exec.
const (
	maxPasses = 1000
	passPause = 1
)

// findMarked returns pidfds of the processes with the marker. unsure means that there may be more,
// because some processes cannot be identified yet.
func findMarked(marker string) (found []int, unsure bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if !hasMarker(pid, marker) {
			unsure = unsure || isExecing(pid)
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has exited
		}
		if !hasMarker(pid, marker) {
			_ = unix.Close(pidfd)
			unsure = unsure || isExecing(pid)
			continue
		}
		found = append(found, pidfd)
	}
	return found, unsure, nil
}

// isExecing reports whether a process is in the middle of an exec: it briefly has neither
// environment nor arguments. Zombies and kernel threads never have any, and are excluded.
func isExecing(pid int) bool {
	for _, file := range []string{"environ", "cmdline"} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err != nil || len(text) > 0 {
			return false
		}
	}
	const kernelThread = 0x00200000
	status, err := readStat(pid)
	return err == nil && !strings.ContainsAny(status.State, "ZX") && status.Flags&kernelThread == 0
}

// hasMarker reports whether a live process has the marker. A zombie has no environment.
func hasMarker(pid int, marker string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(env, []byte{0}) {
		if string(variable) == Marker+"="+marker {
			return true
		}
	}
	return false
}

// deathTimeout bounds the wait for a killed process, in milliseconds. A process that takes longer
// hangs in the kernel and dies when it returns.
const deathTimeout = 2000

// killAndWait kills a process and waits for its death.
func killAndWait(pidfd int) error {
	defer func() { _ = unix.Close(pidfd) }()
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill what a shim has left: %w", err)
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, deathTimeout)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
