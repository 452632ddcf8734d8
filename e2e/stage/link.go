package stage

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"time"
)

// Every message takes a while, so that what follows from a tick never falls on the
// instant of the tick: the order of one instant is anybody's, and a story is exact.
const (
	hubDelay  = time.Millisecond
	nodeDelay = 300 * time.Microsecond
)

// link is a way to a bus, on which messages take their time. A cut breaks what is open
// and refuses what is tried; nothing that was under way comes through later.
type link struct {
	open  func() (net.Conn, error)
	delay time.Duration

	mu    sync.Mutex
	isCut bool
	conns []net.Conn

	carriers sync.WaitGroup
}

var errCut = errors.New("the link is cut")

func (l *link) dial() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errCut
	}
	far, err := l.open()
	if err != nil {
		return nil, err
	}
	near, ours := net.Pipe()
	l.conns = append(l.conns, far, ours)
	l.carry(far, ours)
	l.carry(ours, far)
	return near, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}

// packet is what one read brought, and when it arrives.
type packet struct {
	data []byte
	due  time.Time
}

// carry moves bytes from one end to the other, each delay after it was sent, until
// either end closes; then it closes both.
func (l *link) carry(from, to net.Conn) {
	packets := make(chan packet, 2000)
	l.carriers.Go(func() {
		defer close(packets)
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			packets <- packet{bytes.Clone(buffer[:n]), time.Now().Add(l.delay)}
		}
	})
	l.carriers.Go(func() {
		defer func() { _ = errors.Join(from.Close(), to.Close()) }()
		for p := range packets {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	})
}

// end cuts the link for good and waits until nothing is on it.
func (l *link) end() {
	l.cut()
	l.carriers.Wait()
}
