package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/client"
)

// terminalOf returns the terminal at standard input; nil if there is none.
func terminalOf(in io.Reader) client.Terminal {
	file, ok := in.(*interruptibleStdin)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(file.inherited.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return ttyFile{file.inherited}
}

// ttyFile is a terminal of this process.
type ttyFile struct{ file *os.File }

var _ client.Terminal = ttyFile{}

// Raw implements client.Terminal.
func (t ttyFile) Raw() (restore func(), err error) {
	fd := int(t.file.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil // it may be gone
}

// Size implements client.Terminal.
func (t ttyFile) Size() (proto.TerminalSize, error) {
	size, err := unix.IoctlGetWinsize(int(t.file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return proto.TerminalSize{}, fmt.Errorf("terminal: %w", err)
	}
	return proto.TerminalSize{Width: size.Col, Height: size.Row}, nil
}

// Resized implements client.Terminal.
func (ttyFile) Resized() (changes <-chan os.Signal, stop func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	return resized, func() { signal.Stop(resized) }
}

// interruptibleStdin is standard input with deadlines. The inherited file cannot be made
// non-blocking without affecting other processes that share it, so it is opened again.
type interruptibleStdin struct {
	inherited *os.File
	opening   sync.Once
	own       *os.File
}

// Read implements io.Reader.
func (k *interruptibleStdin) Read(into []byte) (int, error) {
	return k.open().Read(into)
}

// SetReadDeadline makes Read fail after the deadline.
func (k *interruptibleStdin) SetReadDeadline(at time.Time) error {
	return k.open().SetReadDeadline(at)
}

func (k *interruptibleStdin) open() *os.File {
	k.opening.Do(func() {
		k.own = k.inherited
		info, err := k.inherited.Stat()
		if err != nil || info.Mode()&(os.ModeCharDevice|os.ModeNamedPipe) == 0 {
			return // reading a file never blocks
		}
		again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", k.inherited.Fd()), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err == nil {
			k.own = again
		}
	})
	return k.own
}
