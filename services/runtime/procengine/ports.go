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

// checkPort refuses ports that do not belong to the pod. Probes and hooks may reach the ports that
// the pod declares, and those on which its processes listen.
func (e *Engine) checkPort(id string, port int32) error {
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
	case slices.Contains(c.request.GetPorts(), port), isListening(markers, port):
		return nil
	}
	return fmt.Errorf("port %d is %w to this pod: it declares %s, and none of its processes listens there", port, ErrNotAllowed, formatPorts(c.request.GetPorts()))
}

func formatPorts(ports []int32) string {
	if len(ports) == 0 {
		return "no port"
	}
	return strings.Trim(fmt.Sprint(ports), "[]")
}

// isListening reports whether a process with one of the markers in its environment listens on a TCP
// port.
func isListening(markers []string, port int32) bool {
	sockets := listeningSockets(port)
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
