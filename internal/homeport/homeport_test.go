package homeport

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// TestHomePorts has ports that outgoing connections do not get, each once.
func TestHomePorts(t *testing.T) {
	t.Parallel()
	if countTries(firstEphemeralPort()) == 0 {
		t.Log("outgoing connections of this machine get home ports: any port will do")
	}
	seen := map[string]bool{}
	for range 200 {
		l, err := Listen(t.Context(), "127.0.0.1", 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok || seen[address.String()] {
			t.Fatalf("%v was given twice", l.Addr())
		}
		seen[address.String()] = true
		if countTries(firstEphemeralPort()) > 0 && (address.Port < firstPort || address.Port > lastPort) {
			t.Errorf("port %d is not a home port", address.Port)
		}
	}
}

// TestFreePort checks that a free port can be listened on, and cannot while another listener holds
// it.
func TestFreePort(t *testing.T) {
	t.Parallel()
	var port int
	var l net.Listener
	for err := error(syscall.EADDRINUSE); errors.Is(err, syscall.EADDRINUSE); { // others may take it at once
		if port, err = Free(t.Context(), "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
		if l, err = Listen(t.Context(), "127.0.0.1", port); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
	if _, err := Listen(t.Context(), "127.0.0.1", port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port that is taken: %v, want %v", err, syscall.EADDRINUSE)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoHome leaves it to the system where outgoing connections get every port.
func TestNoHome(t *testing.T) {
	t.Parallel()
	for low, want := range map[int]int{1024: 0, firstPort: 0, lastPort: 0, lastPort + 1: maxTries, 32768: maxTries} {
		if got := countTries(low); got != want {
			t.Errorf("outgoing connections from %d on: %d tries, want %d", low, got, want)
		}
	}
}
