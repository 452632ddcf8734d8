package bus_test

import (
	"net"
	"sync/atomic"

	"github.com/podfall/podfall/internal/bus"
)

// valve is closed while it holds true.
type valve = atomic.Bool

// valved loses what is written while its valve is closed.
type valved struct {
	net.Conn
	valve *valve
}

func (v *valved) Write(p []byte) (int, error) {
	if v.valve.Load() {
		return len(p), nil
	}
	return v.Conn.Write(p)
}

// valve is one behind which all connections are that are dialled from now on.
func (s *stand) valve() *valve {
	v, connect := &valve{}, s.connect
	s.connect = func(c bus.Config) bus.Config {
		c = connect(c)
		open := c.InProcess
		c.InProcess = func() (net.Conn, error) {
			conn, err := open()
			return &valved{Conn: conn, valve: v}, err
		}
		return c
	}
	return v
}
