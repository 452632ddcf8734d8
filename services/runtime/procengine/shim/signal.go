package shim

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// signal sends the program a signal. What has exited takes it without harm. A signal other
// than SIGKILL is sent once, so that a runtime may ask for it again after it was killed
// and does not know whether it has (CRI-07).
func (s *shim) signal(name string) error {
	number := unix.SignalNum(name)
	if number == 0 {
		return fmt.Errorf("signal %q: want a name such as SIGTERM", name)
	}
	if number != unix.SIGKILL && s.signals.sent[int(number)] {
		return nil
	}
	s.signals.sent[int(number)] = true
	return s.signals.journal.around(Record{Signal: name}, func() error { return s.send(number) })
}

// signals are those that the program was sent.
type signals struct {
	sent    map[int]bool
	journal journal
}

// send sends a signal by the process's descriptor, which never names another process.
func (s *shim) send(number syscall.Signal) error {
	if s.spec.Init && number != unix.SIGKILL && number != unix.SIGSTOP && !s.handles(number) {
		return nil // process 1 of a container gets only the signals that it handles (CRI-11)
	}
	err := s.main.Signal(number)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// handles reports whether the program has a handler for the signal.
func (s *shim) handles(number syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.main.Pid))
	if err != nil {
		return true // it has exited
	}
	return catches(status, number)
}

// catches reports whether a process's status says that it has a handler for a signal.
func catches(status []byte, number syscall.Signal) bool {
	for line := range bytes.Lines(status) {
		mask, found := strings.CutPrefix(string(line), "SigCgt:")
		if !found {
			continue
		}
		caught, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		return err != nil || caught&(1<<(number-1)) != 0
	}
	return true
}
