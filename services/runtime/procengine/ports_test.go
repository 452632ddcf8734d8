package procengine

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestListens finds the ports of listening processes, for example this one, by a marker in their
// environment and by the shim above them.
func TestListens(t *testing.T) {
	data, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	marker, _, _ := strings.Cut(string(data), "\x00")
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		defer listener.Close()
		addr, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			t.Fatal(listener.Addr())
		}
		port := int32(addr.Port)
		for name, pod := range map[string]*owner{
			"by its marker": {markers: []string{"OTHER=1", marker}},
			"by its shim":   {dirs: []string{"/other", lastArgument(t, os.Getppid())}},
		} {
			if pod.below = map[int]bool{}; !pod.holdsAny(listeningSockets(port)) {
				t.Errorf("%s %s: no process listens on %d", address, name, port)
			}
		}
		other := newOwner()
		other.markers, other.dirs = []string{"OTHER=1"}, []string{"/other"}
		if other.holdsAny(listeningSockets(port)) {
			t.Errorf("%s: another pod's process listens on %d", address, port)
		}
	}
}

func lastArgument(t *testing.T, pid int) string {
	t.Helper()
	line, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	arguments := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	return arguments[len(arguments)-1]
}
