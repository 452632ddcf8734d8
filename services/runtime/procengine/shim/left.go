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

// Marker is the environment variable by which what descends from a container's program
// is known, wherever it has gone.
const Marker = "PODFALL_CONTAINER"

// killLeft kills what a shim that was killed has left behind: every process with the
// marker in its environment. The process is held by a descriptor while it is looked at,
// so that the signal cannot reach another one that got its number.
func killLeft(marker string) error {
	for range passes {
		found, unsure, err := left(marker)
		if err != nil || len(found) == 0 && !unsure {
			return err
		}
		if len(found) == 0 {
			_, _ = unix.Poll(nil, between) // an exec is under way
		}
		for _, pidfd := range found {
			err = errors.Join(err, end(pidfd))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// passes are how often what is left is looked for: a process may start others before it
// is killed. The pause, in milliseconds, is for those that are about to become another program.
const (
	passes  = 1000
	between = 1
)

// left are descriptors of the processes with the marker, and whether there may be more: some
// cannot be told yet.
func left(marker string) (found []int, unsure bool, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, false, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if !marked(pid, marker) {
			unsure = unsure || becoming(pid)
			continue
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has gone
		}
		if !marked(pid, marker) {
			_ = unix.Close(pidfd)
			unsure = unsure || becoming(pid)
			continue
		}
		found = append(found, pidfd)
	}
	return found, unsure, nil
}

// becoming reports whether a process is between two programs: for a moment it has neither an
// environment nor arguments. So have zombies and the kernel's own threads, always.
func becoming(pid int) bool {
	for _, file := range []string{"environ", "cmdline"} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err != nil || len(text) > 0 {
			return false
		}
	}
	const kernelThread = 0x00200000
	said, err := stat(pid)
	return err == nil && !strings.ContainsAny(said.State, "ZX") && said.Flags&kernelThread == 0
}

// marked reports whether a process that lives has the marker. A zombie has no environment
// any more.
func marked(pid int, marker string) bool {
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

// dying is how long a killed process may take to go, in milliseconds. One that takes
// longer hangs in the kernel, and goes when that lets it.
const dying = 2000

// end kills a process, and waits for its death.
func end(pidfd int) error {
	defer func() { _ = unix.Close(pidfd) }()
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill what a shim has left: %w", err)
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, dying)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
