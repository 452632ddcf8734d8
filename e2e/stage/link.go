package stage

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"time"
)

// Each message takes a while, so that a tick's consequences never fall on the instant of the
// tick. The order within one instant is undefined, and stories must be exact.
const (
	hubDelay  = time.Millisecond
	nodeDelay = 300 * time.Microsecond
)

// link is a connection to a bus whose messages are delayed. A cut breaks open connections and
// refuses new ones; nothing under way arrives later.
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
	l.forward(far, ours)
	l.forward(ours, far)
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

// packet is the data of one read, and when it arrives.
type packet struct {
	data []byte
	due  time.Time
}

// forward copies bytes from one end to the other, each after the delay, until either end closes.
// Then it closes both.
func (l *link) forward(from, to net.Conn) {
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

// close cuts the link for good and waits until nothing is on it.
func (l *link) close() {
	l.cut()
	l.carriers.Wait()
}
