// Package homeport finds ports that a process can have again after it has been away.
//
// A process that is restarted listens where its clients know it. A port that the system
// picks by itself is of the range from which it also gives every outgoing connection one,
// so that a connection of anybody's may sit on it when the process comes back, which then
// cannot listen. Home ports are below that range, and below those that Kubernetes gives to
// Services of type NodePort. Processes of one user do not take each other's: which files name
// their ports is noted in a directory of the user's among the temporary files.
package homeport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The home ports, as far as the system does not use them for outgoing connections.
const (
	first = 20000
	last  = 29999
)

// ephemeral is where Linux says which ports outgoing connections get.
const ephemeral = "/proc/sys/net/ipv4/ip_local_port_range"

// tries is how many ports are tried before the system picks one.
const tries = 100

// Listen listens on a port of host; port 0 picks a home port that nobody listens on and nobody
// may come back to ([Keep]), and where there is none, any. Errors are those of
// [net.ListenConfig.Listen].
func Listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var from net.ListenConfig
	at := func(port int) (net.Listener, error) {
		return from.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if port != 0 {
		return at(port)
	}
	kept := noted().kept()
	for range homes(outgoing()) {
		port, err := draw()
		if err != nil {
			return nil, err
		}
		if kept[port] {
			continue
		}
		listener, err := at(port)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
	}
	return at(0)
}

// Free is a home port of host that nobody listened on a moment ago, for those who listen
// by themselves.
func Free(ctx context.Context, host string) (int, error) {
	listener, err := Listen(ctx, host, 0)
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err = errors.Join(err, listener.Close()); err != nil {
		return 0, fmt.Errorf("find a port of %s: %w", host, err)
	}
	return strconv.Atoi(port)
}

// homes is how many home ports to try when outgoing connections get ports from the given
// one on: none, if that is a home port.
func homes(outgoing int) int {
	if outgoing <= last {
		return 0
	}
	return tries
}

// outgoing is the first port of outgoing connections; that of most systems where this one
// does not tell.
func outgoing() int {
	const usual = 32768
	data, err := os.ReadFile(ephemeral)
	if err != nil {
		return usual
	}
	low, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\t")
	if port, err := strconv.Atoi(low); err == nil {
		return port
	}
	return usual
}

func draw() (int, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(last-first+1))
	if err != nil {
		return 0, fmt.Errorf("draw a port: %w", err)
	}
	return first + int(n.Int64()), nil
}
