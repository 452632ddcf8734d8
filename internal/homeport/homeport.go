// Package homeport finds ports that a process can use again after a restart.
//
// A restarted process listens where its clients expect it. Ports that the system assigns come from
// the ephemeral range, from which every outgoing connection gets a port too. Such a connection may
// hold the port when the process returns, and then the process cannot listen. Home ports are below
// the ephemeral range, and below the NodePort range of Kubernetes. Processes of one user do not
// take each other's ports: a per-user directory among the temporary files records which files name
// ports in use.
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

// The range of home ports, unless the system uses them for outgoing connections.
const (
	firstPort = 20000
	lastPort  = 29999
)

// ephemeralRangeFile is where Linux publishes the range of ephemeral ports.
const ephemeralRangeFile = "/proc/sys/net/ipv4/ip_local_port_range"

// maxTries is how many ports are tried before the system assigns one.
const maxTries = 100

// Listen listens on a port of host. For port 0 it picks a home port that is free and not reserved
// ([Reserve]), or any port if there is none. Errors are those of [net.ListenConfig.Listen].
func Listen(ctx context.Context, host string, port int) (net.Listener, error) {
	var from net.ListenConfig
	at := func(port int) (net.Listener, error) {
		return from.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if port != 0 {
		return at(port)
	}
	kept := userReservations().ports()
	for range countTries(firstEphemeralPort()) {
		port, err := randomPort()
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

// Free returns a home port of host that was free a moment ago, for callers that listen themselves.
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

// countTries returns how many home ports to try if ephemeral ports begin at outgoing: none, if that
// is a home port.
func countTries(outgoing int) int {
	if outgoing <= lastPort {
		return 0
	}
	return maxTries
}

// firstEphemeralPort returns the first ephemeral port, or the default of most systems if unknown.
func firstEphemeralPort() int {
	const usual = 32768
	data, err := os.ReadFile(ephemeralRangeFile)
	if err != nil {
		return usual
	}
	low, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\t")
	if port, err := strconv.Atoi(low); err == nil {
		return port
	}
	return usual
}

func randomPort() (int, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(lastPort-firstPort+1))
	if err != nil {
		return 0, fmt.Errorf("draw a port: %w", err)
	}
	return firstPort + int(n.Int64()), nil
}
