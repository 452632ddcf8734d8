package runtime

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/podfall/podfall/proto"
)

// network allocates sandbox addresses. It is safe for concurrent use.
type network struct {
	prefix netip.Prefix

	mu   sync.Mutex
	last netip.Addr // the last address allocated; addresses are reused as late as possible
	used map[netip.Addr]bool
}

// newNetwork returns the network of cidr. If cidr is empty, it is 10.<n>.0.0/16, with n derived
// from seed.
func newNetwork(cidr, seed string) (*network, error) {
	if cidr == "" {
		sum := sha256.Sum256([]byte(seed))
		cidr = fmt.Sprintf("10.%d.0.0/16", sum[0])
	}
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("pod CIDR %q: %w", cidr, err)
	}
	prefix = prefix.Masked()
	// The first two addresses belong to the network and its gateway.
	gateway := prefix.Addr().Next()
	if !prefix.Contains(gateway) || !prefix.Contains(gateway.Next()) {
		return nil, fmt.Errorf("pod CIDR %q: no room for a pod", cidr)
	}
	return &network{prefix: prefix, last: gateway, used: map[netip.Addr]bool{}}, nil
}

// allocate returns a free address.
func (n *network) allocate() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for addr, wrapped := n.last.Next(), false; ; addr = addr.Next() {
		if !n.prefix.Contains(addr.Next()) { // the last address is the broadcast address
			if wrapped {
				return "", fmt.Errorf("no IP addresses available in range set: %s", n.prefix)
			}
			addr, wrapped = n.prefix.Addr().Next(), true
			continue
		}
		if !n.used[addr] {
			n.used[addr], n.last = true, addr
			return addr.String(), nil
		}
	}
}

// reserve marks an address as in use.
func (n *network) reserve(ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr, err := netip.ParseAddr(ip)
	if err != nil || !n.prefix.Contains(addr) {
		return
	}
	n.used[addr] = true
	if gateway := n.prefix.Addr().Next(); gateway.Less(addr) {
		n.last = addr
	}
}

// release marks an address as free.
func (n *network) release(ip string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, err := netip.ParseAddr(ip); err == nil {
		delete(n.used, addr)
	}
}

// AnnotationTeardown on a sandbox makes the teardown of its network fail (CRI-10). Its value is
// "fails", or "fails for D" with D counted from the first attempt, for example 1m30s.
const AnnotationTeardown = "network.podfall.io/teardown"

// teardownFails returns why the sandbox's network teardown fails at now, or "". first is the time
// of the first attempt.
func teardownFails(record *proto.Sandbox, first, now time.Time) (why string) {
	verb, limit, limited := strings.Cut(record.Annotations[AnnotationTeardown], " for ")
	if verb != "fails" {
		return ""
	}
	if d, err := time.ParseDuration(limit); limited && err == nil && !now.Before(first.Add(d)) {
		return ""
	}
	return "the sandbox's annotation " + AnnotationTeardown + " says so"
}
