package main

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/fault"
)

// limits are what this process may have while a fault says so: the soft limits alone, which
// every process may lower, and raise again to what they were. Board changes set them, one
// after the other.
type limits struct {
	// before are the limits as they were, by resource, once one was changed.
	before map[int]unix.Rlimit
}

// set makes these all the limits that there are; the smallest of each is in force.
func (l *limits) set(values []string) {
	asked := map[int]uint64{}
	for _, value := range values {
		limit, err := fault.ParseLimit(value)
		if err != nil {
			continue // it was checked before it came here
		}
		resource := unix.RLIMIT_NOFILE
		if limit.Memory {
			resource = unix.RLIMIT_AS
		}
		if most, ok := asked[resource]; !ok || limit.Max < most {
			asked[resource] = limit.Max
		}
	}
	for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_AS} {
		most, ok := asked[resource]
		if !ok {
			most = math.MaxUint64
		}
		l.lower(resource, most)
	}
}

// lower sets a soft limit to most, or to what it was before if that is less. A machine that
// refuses leaves it as it is.
func (l *limits) lower(resource int, most uint64) {
	before, known := l.before[resource]
	if !known && most == math.MaxUint64 {
		return
	}
	if !known {
		if err := unix.Getrlimit(resource, &before); err != nil {
			return
		}
		if l.before == nil {
			l.before = map[int]unix.Rlimit{}
		}
		l.before[resource] = before
	}
	_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: min(before.Cur, most), Max: before.Max})
}
