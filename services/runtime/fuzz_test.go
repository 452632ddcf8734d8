package runtime

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/proto"
)

// FuzzNetwork: each pod gets its own address in an accepted network, never the network's, the
// gateway's or the broadcast address. Released addresses can be allocated again. Errors name the
// network.
func FuzzNetwork(f *testing.F) {
	f.Fuzz(func(t *testing.T, cidr, taken string) {
		n, err := newNetwork(cidr, "seed")
		if err != nil {
			if !strings.Contains(err.Error(), "pod CIDR") {
				t.Error(err)
			}
			return
		}
		n.reserve(taken)
		given := map[string]bool{}
		for range 8 {
			ip, err := n.allocate()
			if err != nil {
				break
			}
			addr, err := netip.ParseAddr(ip)
			if err != nil || given[ip] || ip == taken || !n.prefix.Contains(addr) {
				t.Fatalf("of %q without %q was given %q: %v", cidr, taken, ip, err)
			}
			if first := n.prefix.Addr(); addr == first || addr == first.Next() || !n.prefix.Contains(addr.Next()) {
				t.Errorf("of %q was given %q", cidr, ip)
			}
			given[ip] = true
		}
		for ip := range given {
			n.release(ip)
		}
		for range given {
			if ip, err := n.allocate(); err != nil {
				t.Errorf("of %q is nothing left behind %q: %v", cidr, ip, err)
			}
		}
	})
}

// FuzzTeardown: a failing teardown fails until a time or for ever, and says why.
func FuzzTeardown(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, after int64) {
		record := &proto.Sandbox{Annotations: map[string]string{AnnotationTeardown: text}}
		first := time.Unix(0, 0)
		why := teardownFails(record, first, first.Add(time.Duration(after)))
		if why != "" && (!strings.HasPrefix(text, "fails") || !strings.Contains(why, AnnotationTeardown)) {
			t.Errorf("%q: %q", text, why)
		}
		if later := teardownFails(record, first, first.Add(1<<62)); after < 1<<62 && why == "" && later != "" {
			t.Errorf("%q is over after %v, and fails again", text, time.Duration(after))
		}
	})
}
