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

// signalProgram sends the program a signal. Signaling an exited program is harmless. A signal other
// than SIGKILL is sent only once, so that a restarted runtime may ask again for a signal that it
// may already have sent (CRI-07).
func (s *shim) signalProgram(name string) error {
	number := unix.SignalNum(name)
	if number == 0 {
		return fmt.Errorf("signal %q: want a name such as SIGTERM", name)
	}
	if number != unix.SIGKILL && s.signals.sent[int(number)] {
		return nil
	}
	s.signals.sent[int(number)] = true
	return s.signals.journal.recordAround(Record{Signal: name}, func() error { return s.sendSignal(number) })
}

// sentSignals are the signals sent to the program.
type sentSignals struct {
	sent    map[int]bool
	journal journal
}

// sendSignal signals through the process's descriptor, which never names another process.
func (s *shim) sendSignal(number syscall.Signal) error {
	if s.spec.Init && number != unix.SIGKILL && number != unix.SIGSTOP && !s.handlesSignal(number) {
		return nil // process 1 of a container gets only signals that it handles (CRI-11)
	}
	err := s.main.Signal(number)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// handlesSignal reports whether the program has a handler for the signal.
func (s *shim) handlesSignal(number syscall.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.main.Pid))
	if err != nil {
		return true // it has exited
	}
	return catchesSignal(status, number)
}

// catchesSignal reports whether a /proc/PID/status file shows a handler for a signal.
func catchesSignal(status []byte, number syscall.Signal) bool {
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
