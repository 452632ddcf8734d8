package procengine

import (
	"net"
	"os"
	"strings"
	"testing"
)

// TestListens finds the ports of listening processes with a marker, for example this one, in their
// environment.
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
		if !isListening([]string{"OTHER=1", marker}, port) {
			t.Errorf("%s: nobody listens on %d", address, port)
		}
		if isListening([]string{"OTHER=1"}, port) {
			t.Errorf("%s: somebody else listens on %d", address, port)
		}
	}
}
