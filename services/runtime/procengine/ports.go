package procengine

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// checkPort refuses ports on which no process of the pod listens. A port that the pod declares may
// also be free: its connection is refused as in a pod with a network of its own.
func (e *Engine) checkPort(id string, port int32) error {
	e.mu.Lock()
	c, ok := e.containers[id]
	pod := newOwner()
	if ok {
		for _, other := range e.containers {
			if other.request.GetSandboxId() == c.request.GetSandboxId() {
				pod.markers = append(pod.markers, shim.Marker+"="+other.id)
				pod.dirs = append(pod.dirs, other.dir)
			}
		}
	}
	e.mu.Unlock()
	if !ok {
		return notLoaded(id)
	}
	sockets := listeningSockets(port)
	declared := slices.Contains(c.request.GetPorts(), port)
	switch {
	case declared && len(sockets) == 0, pod.holdsAny(sockets):
		return nil
	case declared:
		return fmt.Errorf("port %d is %w to this pod: a process outside the pod listens there, and none of its own", port, ErrNotAllowed)
	}
	return fmt.Errorf("port %d is %w to this pod: it declares %s, and none of its processes listens there", port, ErrNotAllowed, formatPorts(c.request.GetPorts()))
}

func formatPorts(ports []int32) string {
	if len(ports) == 0 {
		return "no port"
	}
	return strings.Trim(fmt.Sprint(ports), "[]")
}

// owner recognizes the processes of a pod.
type owner struct {
	// markers are variables in the environment of the pod's processes.
	markers []string
	// dirs are the directories of the pod's containers; each is the last argument of a shim.
	dirs []string
	// below remembers which processes descend from one of the shims, by PID.
	below map[int]bool
}

func newOwner() *owner { return &owner{below: map[int]bool{}} }

// holdsAny reports whether a process of the pod has one of the sockets open.
func (o *owner) holdsAny(sockets []string) bool {
	if len(sockets) == 0 {
		return false
	}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !hasMarker(pid, o.markers) && !o.isBelow(pid) {
			continue
		}
		descriptors, _ := os.ReadDir(procFile(pid, "fd"))
		for _, descriptor := range descriptors {
			if target, err := os.Readlink(procFile(pid, "fd/"+descriptor.Name())); err == nil && slices.Contains(sockets, target) {
				return true
			}
		}
	}
	return false
}

// isBelow reports whether a process descends from one of the shims. It finds programs that overwrite
// their environment to show a title, for example Redis.
func (o *owner) isBelow(pid int) bool {
	if pid <= 1 {
		return false
	}
	below, known := o.below[pid]
	if !known {
		o.below[pid] = false // ends a circle of reused PIDs
		below = o.isShim(pid) || o.isBelow(parentOf(pid))
		o.below[pid] = below
	}
	return below
}

func (o *owner) isShim(pid int) bool {
	line, _ := os.ReadFile(procFile(pid, "cmdline"))
	arguments := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return slices.Contains(o.dirs, arguments[len(arguments)-1])
}

// parentOf returns the PID of a process's parent; 0 if the process has exited.
func parentOf(pid int) int {
	const parent = 1 // field after the name, which may contain anything
	stat, _ := os.ReadFile(procFile(pid, "stat"))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= parent {
		return 0
	}
	number, _ := strconv.Atoi(fields[parent])
	return number
}

func procFile(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// hasMarker reports whether a process has one of the markers in its environment.
func hasMarker(pid int, markers []string) bool {
	env, err := os.ReadFile(procFile(pid, "environ"))
	if err != nil {
		return false // it has exited, or belongs to another user
	}
	for variable := range bytes.SplitSeq(env, []byte{0}) {
		if slices.Contains(markers, string(variable)) {
			return true
		}
	}
	return false
}

// listeningSockets returns the sockets that listen on a port, as /proc/PID/fd links name them.
func listeningSockets(port int32) []string {
	var sockets []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, _ := os.ReadFile(table) // the table is missing without IPv6
		sockets = append(sockets, parseListeners(data, port)...)
	}
	return sockets
}

// parseListeners returns the sockets of a /proc/net/tcp table that listen on a port.
func parseListeners(table []byte, port int32) []string {
	const listens, state, address, inode = "0A", 3, 1, 9 // fields
	var sockets []string
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) <= inode || fields[state] != listens {
			continue
		}
		_, hex, _ := strings.Cut(fields[address], ":")
		if number, err := strconv.ParseInt(hex, 16, 32); err == nil && int32(number) == port {
			sockets = append(sockets, "socket:["+fields[inode]+"]")
		}
	}
	return sockets
}
