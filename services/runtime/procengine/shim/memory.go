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

// weighing is how often the memory of a program is looked at.
const weighing = 100 * time.Millisecond

// watchMemory says when to look at how much memory the program takes; never, where it has
// no limit or its cgroup keeps to it.
func (s *shim) watchMemory() clock.Ticker {
	ticker := clock.Clock{}.Ticker(weighing)
	if s.spec.Limits.Memory == 0 {
		ticker.Stop()
	}
	return ticker
}

// weigh kills the program when it takes more memory than it may, with all that descends
// from it, as a kernel does with a container's cgroup.
func (s *shim) weigh() {
	if !s.status.FinishedAt.IsZero() || resident(os.Getpid()) <= s.spec.Limits.Memory {
		return
	}
	s.status.OOMKilled = true
	_ = s.signals.journal.around(Record{Signal: unix.SignalName(unix.SIGKILL)}, func() error { return s.send(unix.SIGKILL) })
}

// resident is how many bytes the descendants of a process hold for themselves.
func resident(pid int) int64 {
	sum := int64(0)
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // it may have gone
		for child := range strings.FieldsSeq(string(children)) {
			if number, err := strconv.Atoi(child); err == nil {
				sum += private(number) + resident(number)
			}
		}
	}
	return sum
}

// private is how many bytes of memory a process has and shares with nobody.
func private(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	return privatePages(data) * int64(os.Getpagesize())
}

// privatePages are those of a statm: all that are in memory but the shared ones.
func privatePages(statm []byte) int64 {
	fields := strings.Fields(string(statm))
	if len(fields) < 3 {
		return 0
	}
	const bits = 48 // so that the bytes are a number too
	all, err := strconv.ParseUint(fields[1], 10, bits)
	shared, wrong := strconv.ParseUint(fields[2], 10, bits)
	if err != nil || wrong != nil || shared > all {
		return 0
	}
	return int64(all - shared)
}

// endCgroup kills whatever is left in the program's cgroup, wherever it has gone, and
// learns whether the kernel has killed for memory.
func (s *shim) endCgroup() {
	dir := s.spec.Limits.Cgroup
	if dir == "" {
		return
	}
	events, _ := os.ReadFile(filepath.Join(dir, "memory.events")) // there is none without its controller
	for line := range strings.Lines(string(events)) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found && strings.TrimSpace(count) != "0" {
			s.status.OOMKilled = true
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // what is a child is killed otherwise as well
}

// leaveCgroup removes the program's cgroup, in which nothing is left.
func (s *shim) leaveCgroup() {
	if dir := s.spec.Limits.Cgroup; dir != "" {
		_ = os.Remove(dir) // the engine removes what is left of it
	}
}
