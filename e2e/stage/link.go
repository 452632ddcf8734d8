package stage

import (
	"errors"
	"net"
	"slices"
	"sync"
)

// link is a node's way to the cluster bus. A cut breaks what is open and refuses what
// is tried; nothing that was under way comes through later.
type link struct {
	open func() (net.Conn, error)

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

var errCut = errors.New("the link is cut")

func (l *link) dial() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		return nil, errCut
	}
	conn, err := l.open()
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
	if cut {
		for _, conn := range slices.Backward(l.conns) {
			_ = conn.Close()
		}
		l.conns = nil
	}
}
