package podcidr

import (
	"net/netip"
	"testing"
)

// FuzzOf: whatever number of pods is asked for, a node's network is one, has room for twice
// the pods as long as there can be so many addresses, and is not the next node's.
func FuzzOf(f *testing.F) {
	f.Fuzz(func(t *testing.T, node uint8, pods int) {
		if pods < 0 {
			return
		}
		network, err := netip.ParsePrefix(NodeCIDR(int(node), pods))
		if err != nil || network.Masked() != network {
			t.Fatalf("node %d of %d pods: %s (%v)", node, pods, NodeCIDR(int(node), pods), err)
		}
		if room := 1 << (32 - network.Bits()); pods <= 1<<(maxHostBits-1) && room < 2*pods {
			t.Errorf("%s has room for %d, want twice %d", network, room, pods)
		}
		next, err := netip.ParsePrefix(NodeCIDR(int(node)+1, pods))
		if err != nil || next.Overlaps(network) {
			t.Errorf("nodes %d and the next have %s and %s (%v)", node, network, next, err)
		}
	})
}
