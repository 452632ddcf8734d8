package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the machine's monotonic clock in nanoseconds: the same for all processes
// of one machine, so that what two of them did can be put in order, and untouched by
// steps and speeds of any other clock. Only differences mean something. Inside a
// testing/synctest bubble it follows the bubble's time.
func Monotonic() int64 {
	now := time.Now()
	if now == now.Round(0) { //nolint:staticcheck // a bubble's times carry no monotonic reading
		return now.UnixNano()
	}
	var spec unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &spec); err != nil {
		return now.UnixNano() // a machine without one
	}
	return spec.Nano()
}
