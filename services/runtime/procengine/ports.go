package procengine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// mayReach refuses a port that is somebody else's: probes and hooks reach what the pod
// declares, and what its own processes listen on.
func (e *Engine) mayReach(id string, port int32) error {
	e.mu.Lock()
	c, ok := e.containers[id]
	var markers []string
	if ok {
		for _, other := range e.containers {
			if other.request.GetSandboxId() == c.request.GetSandboxId() {
				markers = append(markers, shim.Marker+"="+other.id)
			}
		}
	}
	e.mu.Unlock()
	switch {
	case !ok:
		return notLoaded(id)
	case slices.Contains(c.request.GetPorts(), port), listens(markers, port):
		return nil
	}
	return fmt.Errorf("port %d is %w to this pod: it declares %s, and none of its processes listens there", port, ErrNotAllowed, declared(c.request.GetPorts()))
}

func declared(ports []int32) string {
	if len(ports) == 0 {
		return "no port"
	}
	return strings.Trim(fmt.Sprint(ports), "[]")
}

// listens reports whether a process with one of the markers in its environment listens on
// a port of TCP.
func listens(markers []string, port int32) bool {
	sockets := listeners(port)
	if len(sockets) == 0 {
		return false
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if !hasMarker(process, markers) {
			continue
		}
		descriptors, _ := os.ReadDir(process + "/fd")
		for _, descriptor := range descriptors {
			if target, err := os.Readlink(process + "/fd/" + descriptor.Name()); err == nil && slices.Contains(sockets, target) {
				return true
			}
		}
	}
	return false
}

func hasMarker(process string, markers []string) bool {
	env, err := os.ReadFile(process + "/environ")
	if err != nil {
		return false // it has gone, or is somebody else's
	}
	for variable := range bytes.SplitSeq(env, []byte{0}) {
		if slices.Contains(markers, string(variable)) {
			return true
		}
	}
	return false
}

// listeners are the sockets that listen on a port, as the links to them read.
func listeners(port int32) []string {
	var sockets []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, _ := os.ReadFile(table) // without IPv6 there is no such table
		sockets = append(sockets, listening(data, port)...)
	}
	return sockets
}

// listening are those of a table as /proc/net/tcp has it.
func listening(table []byte, port int32) []string {
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
