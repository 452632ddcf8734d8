package admission

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/podfall/podfall/proto"
)

// UserOf returns the Kubernetes user of an identity on the bus, for messages and webhooks. The
// gateway and podfall's own clients are the administrator that kubeadm creates.
func UserOf(identity proto.Identity) authenticationv1.UserInfo {
	user := authenticationv1.UserInfo{Groups: []string{"system:authenticated"}}
	in := func(name string, groups ...string) authenticationv1.UserInfo {
		user.Username, user.Groups = name, append(groups, user.Groups...)
		return user
	}
	if node, ok := identity.NodeName(); ok {
		return in("system:node:"+node, "system:nodes")
	}
	switch identity {
	case proto.APIServer:
		return in("system:apiserver", "system:masters")
	case proto.Controllers:
		return in("system:kube-controller-manager")
	case proto.Admin, proto.Gateway, proto.Bus, proto.Kubelet, proto.Runtime:
	}
	return in("kubernetes-admin", "system:masters")
}
