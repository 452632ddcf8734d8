package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// memoryInterval is how often the program's memory is measured.
const memoryInterval = 100 * time.Millisecond

// memoryTicker returns a ticker for memory checks. It never ticks if there is no limit or a cgroup
// enforces it.
func (s *shim) memoryTicker() clock.Ticker {
	ticker := clock.Clock{}.Ticker(memoryInterval)
	if s.spec.Limits.Memory == 0 {
		ticker.Stop()
	}
	return ticker
}

// checkMemory kills the program with all its descendants if they exceed the memory limit, as a
// kernel does with a container's cgroup.
func (s *shim) checkMemory() {
	if !s.status.FinishedAt.IsZero() || descendantMemory(os.Getpid()) <= s.spec.Limits.Memory {
		return
	}
	s.status.OOMKilled = true
	_ = s.signals.journal.recordAround(Record{Signal: unix.SignalName(unix.SIGKILL)}, func() error { return s.sendSignal(unix.SIGKILL) })
}

// descendantMemory returns the private memory of all descendants of a process, in bytes.
func descendantMemory(pid int) int64 {
	sum := int64(0)
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // it may have gone
		for child := range strings.FieldsSeq(string(children)) {
			if number, err := strconv.Atoi(child); err == nil {
				sum += privateMemory(number) + descendantMemory(number)
			}
		}
	}
	return sum
}

// privateMemory returns a process's resident memory that is not shared, in bytes.
func privateMemory(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	return privatePages(data) * int64(os.Getpagesize())
}

// privatePages returns the resident minus the shared pages of a statm file.
func privatePages(statm []byte) int64 {
	fields := strings.Fields(string(statm))
	if len(fields) < 3 {
		return 0
	}
	const bits = 48 // so that the size in bytes does not overflow
	all, err := strconv.ParseUint(fields[1], 10, bits)
	shared, wrong := strconv.ParseUint(fields[2], 10, bits)
	if err != nil || wrong != nil || shared > all {
		return 0
	}
	return int64(all - shared)
}

// killCgroup kills all processes in the program's cgroup and checks whether the kernel killed any
// for memory.
func (s *shim) killCgroup() {
	dir := s.spec.Limits.Cgroup
	if dir == "" {
		return
	}
	events, _ := os.ReadFile(filepath.Join(dir, "memory.events")) // missing without the memory controller
	for line := range strings.Lines(string(events)) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found && strings.TrimSpace(count) != "0" {
			s.status.OOMKilled = true
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // children are killed separately too
}

// removeCgroup removes the program's empty cgroup.
func (s *shim) removeCgroup() {
	if dir := s.spec.Limits.Cgroup; dir != "" {
		_ = os.Remove(dir) // the engine removes it otherwise
	}
}
