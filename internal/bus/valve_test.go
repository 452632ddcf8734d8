package bus_test

import (
	"net"
	"sync/atomic"
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
