package shim

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// pipeCapacity bounds what is read from a pipe after its deadline: its capacity of sixteen pages.
// So a process that was left behind and keeps writing blocks nothing.
func pipeCapacity() int { return 16 * os.Getpagesize() }

// readBuffered reads what a pipe or terminal holds now, without waiting. It is for files with a
// passed deadline: on a stalled machine, data written in time may still be unread.
func readBuffered(from *os.File) []byte {
	text := make([]byte, 0, pipeCapacity())
	_ = withFD(from, func(fd int) error {
		for len(text) < cap(text) && isReady(fd, unix.POLLIN) {
			n, err := unix.Read(fd, text[len(text):cap(text)])
			if err != nil || n <= 0 {
				return err
			}
			text = text[:len(text)+n]
		}
		return nil
	})
	return text
}

// writeNow writes what a connection takes now, without waiting; it writes all or fails. It is for
// connections with a passed deadline, like readBuffered.
func writeNow(to net.Conn, text []byte) error {
	socket, ok := to.(*net.UnixConn)
	if !ok {
		return os.ErrDeadlineExceeded
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) {
		for err == nil && len(text) > 0 {
			if !isReady(int(fd), unix.POLLOUT) {
				err = os.ErrDeadlineExceeded
				return
			}
			var n int
			n, err = unix.Write(int(fd), text)
			text = text[max(n, 0):]
		}
	}); failed != nil {
		return failed
	}
	return err
}

// isReady reports whether a descriptor can be read or written without waiting.
func isReady(fd int, events int16) bool {
	for {
		asked := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(asked, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0 && asked[0].Revents&events != 0
		}
	}
}
