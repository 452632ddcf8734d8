package shim

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// openTerminal returns both ends of a new pseudoterminal: the shim's and the process's. It has no
// name in the file system that the process sees.
func openTerminal(user *launch.User) (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	slave := -1
	err = withFD(ours, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		slave = int(number)
		return nil
	})
	if err == nil && user != nil {
		err = unix.Fchown(slave, user.UID, user.GID)
	}
	if err != nil {
		_ = ours.Close()
		if slave >= 0 {
			_ = unix.Close(slave)
		}
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	return ours, os.NewFile(uintptr(slave), "terminal"), nil
}

// withFD calls f with the descriptor of a non-blocking file.
func withFD(file *os.File, ask func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var asked error
	if err := raw.Control(func(fd uintptr) { asked = ask(int(fd)) }); err != nil {
		return err
	}
	return asked
}

// resizeTerminal sets a terminal to the client's size. Invalid sizes change nothing.
func resizeTerminal(terminal *os.File, data []byte) {
	var size proto.TerminalSize
	if terminal == nil || json.Unmarshal(data, &size) != nil {
		return
	}
	_ = withFD(terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
	})
}
