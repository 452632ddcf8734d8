// Package podcidr divides the cluster's addresses of pods among its nodes, as upstream's
// node IPAM does with its --node-cidr-mask-size.
package podcidr

import (
	"encoding/binary"
	"net/netip"
)

// first is where the addresses of pods begin: 10.244.0.0.
const first uint32 = 10<<24 | 244<<16

// usual is the size of a node's network in bits, upstream's default: 254 pods.
const usual = 8

// most is the largest size in bits, for 131,072 pods: the first address begins none that is
// larger.
const most = 18

// Of is the network of a node that takes so many pods, such as 10.244.3.0/24. Nodes are
// numbered from 0, and all of a cluster take the same number of pods, 0 or more. There are
// at least twice as many addresses as pods, so that one is not used again at once, but at
// most 2^18.
func Of(node, pods int) string {
	bits := usual
	for bits < most && 1<<bits < 2*pods {
		bits++
	}
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], first+uint32(node)<<bits)
	return netip.PrefixFrom(netip.AddrFrom4(address), 32-bits).String()
}
