// Package podcidr assigns pod networks to nodes, as upstream's node IPAM does with
// --node-cidr-mask-size.
package podcidr

import (
	"encoding/binary"
	"net/netip"
)

// firstAddress is the beginning of the pod network: 10.244.0.0.
const firstAddress uint32 = 10<<24 | 244<<16

// defaultHostBits is upstream's default for the size of a node's network: 254 pods.
const defaultHostBits = 8

// maxHostBits allows 131,072 pods. A larger network cannot begin at firstAddress.
const maxHostBits = 18

// NodeCIDR returns the pod network of a node, for example 10.244.3.0/24. Nodes are numbered from 0.
// All nodes of a cluster take the same number of pods, 0 or more. The network has at least twice as
// many addresses as pods, so that an address is not reused at once, but at most 2^18.
func NodeCIDR(node, pods int) string {
	bits := defaultHostBits
	for bits < maxHostBits && 1<<bits < 2*pods {
		bits++
	}
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], firstAddress+uint32(node)<<bits)
	return netip.PrefixFrom(netip.AddrFrom4(address), 32-bits).String()
}
