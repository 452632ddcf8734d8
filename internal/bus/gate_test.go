package bus_test

import (
	"net"
	"sync/atomic"

	"github.com/podfall/podfall/internal/bus"
)

// gate is closed while it holds true.
type gate = atomic.Bool

// gatedConn loses what is written while its gate is closed.
type gatedConn struct {
	net.Conn
	gate *gate
}

func (v *gatedConn) Write(p []byte) (int, error) {
	if v.gate.Load() {
		return len(p), nil
	}
	return v.Conn.Write(p)
}

// writeGate returns a gate for all connections dialled from now on.
func (s *harness) writeGate() *gate {
	v, connect := &gate{}, s.connect
	s.connect = func(c bus.Config) bus.Config {
		c = connect(c)
		open := c.InProcess
		c.InProcess = func() (net.Conn, error) {
			conn, err := open()
			return &gatedConn{Conn: conn, gate: v}, err
		}
		return c
	}
	return v
}
