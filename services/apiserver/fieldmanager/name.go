package fieldmanager

import "github.com/podfall/podfall/proto"

// NameOf is what managedFields call a process of podfall's own that does not say whose its
// writes are.
func NameOf(identity proto.Identity) string {
	if _, isNode := identity.NodeName(); isNode {
		return "kubelet"
	}
	switch identity {
	case proto.Controllers:
		return "kube-controller-manager"
	case proto.APIServer, proto.Gateway:
		return "kube-apiserver"
	case proto.Admin, proto.Bus, proto.Kubelet, proto.Runtime:
	}
	return "podfall"
}
