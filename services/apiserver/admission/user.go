package admission

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/podfall/podfall/proto"
)

// UserOf is who an identity on the bus is to Kubernetes: in messages, and to webhooks. The
// gateway and every client of podfall's own are the administrator that kubeadm makes.
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
