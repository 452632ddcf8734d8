package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic returns the machine's monotonic clock in nanoseconds. All processes of a machine share
// it, so that their actions can be ordered, and no step or speed of another clock changes it. Only
// differences have a meaning. Inside a testing/synctest bubble it follows the bubble's time.
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
