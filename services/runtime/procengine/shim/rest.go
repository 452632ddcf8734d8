package shim

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// mostRest is how much of what lies in a pipe is read after its time: as much as it holds,
// which is sixteen pages, so that a process which was left behind and writes on keeps nobody.
func mostRest() int { return 16 * os.Getpagesize() }

// rest reads what lies in a pipe or a terminal now, and waits for nothing. It is for one whose
// deadline has passed: on a machine that stood still meanwhile, that says nothing of what was
// written in time.
func rest(from *os.File) []byte {
	text := make([]byte, 0, mostRest())
	_ = control(from, func(fd int) error {
		for len(text) < cap(text) && ready(fd, unix.POLLIN) {
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

// push writes what a connection takes now, and waits for nothing; all or an error. It is for
// one whose deadline has passed, as above.
func push(to net.Conn, text []byte) error {
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
			if !ready(int(fd), unix.POLLOUT) {
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

// ready reports whether a descriptor can be read or written without waiting.
func ready(fd int, events int16) bool {
	for {
		asked := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(asked, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0 && asked[0].Revents&events != 0
		}
	}
}
