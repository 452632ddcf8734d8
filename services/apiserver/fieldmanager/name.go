package fieldmanager

import "github.com/podfall/podfall/proto"

// DefaultManager returns the field manager's name for a podfall process that does not name one.
func DefaultManager(identity proto.Identity) string {
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
