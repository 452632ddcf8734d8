package registry

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// What Services are given: addresses of this net, and ports of the nodes.
const (
	serviceNet      = "10.96.0.0/12"
	serviceNetBits  = 20 // of an address that are the Service's own
	serviceNetFirst = 10<<24 | 96<<16
	// reservedIPs is the size of the lower end of the range, which is left for addresses that are
	// requested.
	reservedIPs   = 256
	firstNodePort = 30000
	lastNodePort  = 32767
	// KubernetesServiceIP is the address of the API server's own Service.
	KubernetesServiceIP = "10.96.0.1"
)

// UsedAddresses are the addresses of other Services.
type UsedAddresses struct {
	IPs       map[string]bool
	NodePorts map[NodePort]bool
}

// NodePort is a port of every node.
type NodePort struct {
	Protocol corev1.Protocol
	Port     int32
}

// Add adds the addresses of a Service.
func (t *UsedAddresses) Add(svc *corev1.Service) {
	if t.IPs == nil {
		t.IPs, t.NodePorts = map[string]bool{}, map[NodePort]bool{}
	}
	for _, ip := range svc.Spec.ClusterIPs {
		t.IPs[ip] = true
	}
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 {
			t.NodePorts[NodePort{port.Protocol, port.NodePort}] = true
		}
	}
}

// NeedsAddresses reports whether the verbs have to look at other Services before they store svc:
// something has to be allocated, or svc requests something that old did not have.
func NeedsAddresses(svc, old *corev1.Service) bool {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	if old == nil || len(old.Spec.ClusterIPs) == 0 {
		return !isHeadless(&svc.Spec)
	}
	had := map[NodePort]bool{}
	for _, port := range old.Spec.Ports {
		had[NodePort{port.Protocol, port.NodePort}] = true
	}
	for _, port := range svc.Spec.Ports {
		if hasNodePorts(svc) && !had[NodePort{port.Protocol, port.NodePort}] {
			return true
		}
	}
	return false
}

// AllocateAddresses sets the missing address and node ports of a prepared Service, or returns an
// apierrors value if a requested one is not available. The result depends only on the used
// addresses and the Service's name and UID.
func AllocateAddresses(kind kinds.Kind, svc, old *corev1.Service, taken UsedAddresses) error {
	taken.Add(&corev1.Service{}) // so that there are maps
	var errs field.ErrorList
	if !isHeadless(&svc.Spec) && svc.Spec.Type != corev1.ServiceTypeExternalName && (old == nil || len(old.Spec.ClusterIPs) == 0) {
		errs = append(errs, allocateIP(svc, taken)...)
	}
	if hasNodePorts(svc) && len(errs) == 0 {
		errs = append(errs, allocateNodePorts(svc, old, taken)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(kind.GroupKind(), svc.Name, errs)
	}
	return nil
}

func allocateIP(svc *corev1.Service, taken UsedAddresses) field.ErrorList {
	at := field.NewPath("spec", "clusterIPs")
	if svc.Spec.ClusterIP == "" {
		ip, ok := freeIP(svc, taken)
		if !ok {
			return field.ErrorList{field.InternalError(at, fmt.Errorf("failed to allocate a serviceIP: range is full"))}
		}
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ip, []string{ip}
		return nil
	}
	wanted := svc.Spec.ClusterIP
	ip, err := netip.ParseAddr(wanted)
	switch {
	case err != nil:
		return nil // validation has its words for that
	case !netip.MustParsePrefix(serviceNet).Contains(ip):
		return field.ErrorList{field.Invalid(at, svc.Spec.ClusterIPs, fmt.Sprintf(
			"failed to allocate IP %s: the provided IP (%s) is not in the valid range. The range of valid IPs is %s", wanted, wanted, serviceNet))}
	case taken.IPs[wanted]:
		return field.ErrorList{field.Invalid(at, svc.Spec.ClusterIPs, fmt.Sprintf(
			"failed to allocate IP %s: provided IP is already allocated", wanted))}
	}
	return nil
}

// freeIP returns the first free address, starting at a position that the Service's identity
// determines.
func freeIP(svc *corev1.Service, taken UsedAddresses) (string, bool) {
	const size = 1<<serviceNetBits - reservedIPs - 1 // the last is the broadcast address
	start := hashIdentity(svc) % size
	for i := range uint32(size) {
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], serviceNetFirst+reservedIPs+(start+i)%size)
		if ip := netip.AddrFrom4(raw).String(); !taken.IPs[ip] {
			return ip, true
		}
	}
	return "", false
}

func hashIdentity(svc *corev1.Service) uint32 {
	hash := fnv.New32a()
	for _, part := range []string{svc.Namespace, svc.Name, string(svc.UID)} {
		_, _ = hash.Write([]byte(part + "\x00")) // never fails
	}
	return hash.Sum32()
}

func allocateNodePorts(svc, old *corev1.Service, taken UsedAddresses) field.ErrorList {
	had := map[NodePort]bool{}
	if old != nil {
		for _, port := range old.Spec.Ports {
			had[NodePort{port.Protocol, port.NodePort}] = true
		}
	}
	wants := svc.Spec.Type == corev1.ServiceTypeNodePort ||
		svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
	var errs field.ErrorList
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		at := field.NewPath("spec", "ports").Index(i).Child("nodePort")
		key := NodePort{port.Protocol, port.NodePort}
		switch {
		case port.NodePort == 0 && wants:
			free, ok := freeNodePort(svc, i, taken)
			if !ok {
				return append(errs, field.InternalError(at, fmt.Errorf("failed to allocate a nodePort: range is full")))
			}
			port.NodePort = free
			taken.NodePorts[NodePort{port.Protocol, free}] = true
		case port.NodePort == 0, had[key]:
		case port.NodePort < firstNodePort || port.NodePort > lastNodePort:
			errs = append(errs, field.Invalid(at, port.NodePort, fmt.Sprintf(
				"provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, lastNodePort)))
		case taken.NodePorts[key]:
			errs = append(errs, field.Invalid(at, port.NodePort, "provided port is already allocated"))
		}
	}
	return errs
}

func freeNodePort(svc *corev1.Service, index int, taken UsedAddresses) (int32, bool) {
	const size = lastNodePort - firstNodePort + 1
	start := int32(hashIdentity(svc) % size)
	for i := range int32(size) {
		port := firstNodePort + (start+int32(index)+i)%size
		if !taken.NodePorts[NodePort{svc.Spec.Ports[index].Protocol, port}] && !requestsNodePort(svc, port) {
			return port, true
		}
	}
	return 0, false
}

func requestsNodePort(svc *corev1.Service, port int32) bool {
	for _, p := range svc.Spec.Ports {
		if p.NodePort == port {
			return true
		}
	}
	return false
}
