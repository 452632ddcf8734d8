package main

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/fault"
)

// limits lowers this process's soft resource limits while a fault asks for it. Every process may
// lower its soft limits and raise them again. Updates of the fault state call it one at a time.
type limits struct {
	// original holds the unmodified limits, by resource, once one was changed.
	original map[int]unix.Rlimit
}

// set applies the given limits and no others; the smallest of each resource counts.
func (l *limits) set(values []string) {
	requested := map[int]uint64{}
	for _, value := range values {
		limit, err := fault.ParseLimit(value)
		if err != nil {
			continue // it was validated before
		}
		resource := unix.RLIMIT_NOFILE
		if limit.Memory {
			resource = unix.RLIMIT_AS
		}
		if most, ok := requested[resource]; !ok || limit.Max < most {
			requested[resource] = limit.Max
		}
	}
	for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_AS} {
		most, ok := requested[resource]
		if !ok {
			most = math.MaxUint64
		}
		l.lower(resource, most)
	}
}

// lower sets a soft limit to most, or to its original value if that is less. Errors leave it
// unchanged.
func (l *limits) lower(resource int, most uint64) {
	before, known := l.original[resource]
	if !known && most == math.MaxUint64 {
		return
	}
	if !known {
		if err := unix.Getrlimit(resource, &before); err != nil {
			return
		}
		if l.original == nil {
			l.original = map[int]unix.Rlimit{}
		}
		l.original[resource] = before
	}
	_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: min(before.Cur, most), Max: before.Max})
}
