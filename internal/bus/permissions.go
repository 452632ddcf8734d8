package bus

import "github.com/podfall/podfall/proto"

// Permissions are the subjects that an identity may publish and read, as NATS subjects
// with wildcards. Everything else is refused by the bus.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// PermissionsFor is who may say what:
//
//	everyone       asks as itself, answers as itself, reads its own answers
//	apiserver      serves api, publishes watch
//	all but the two on a node bus   read the watch groups of their own class
//	node:<name>    serves node.<name>
//	client, gateway                 ask nodes (logs, exec, inspect)
//	kubelet        asks the runtime, on the node bus
//	runtime        serves cri, on the node bus
//
// No one may read an inbox but its owner, and nobody, the owner included, may answer
// as somebody else.
func PermissionsFor(id proto.Identity) Permissions {
	self := id.Token()
	p := Permissions{
		Publish:   []string{proto.RootReply + ".*." + self + ".>"},
		Subscribe: []string{proto.RootReply + "." + self + ".>"},
	}
	if id == proto.Kubelet {
		p.Publish = append(p.Publish, proto.RootCRI+".>")
		return p
	}
	if id == proto.Runtime {
		p.Subscribe = append(p.Subscribe, proto.RootCRI+".>")
		return p
	}
	if id == proto.APIServer {
		p.Publish = append(p.Publish, proto.RootWatch+".>")
		p.Subscribe = append(p.Subscribe, proto.RootAPI+".>")
		return p
	}
	p.Publish = append(p.Publish, proto.RootAPI+"."+self+".>")
	p.Subscribe = append(p.Subscribe, proto.RootWatch+"."+id.Class()+".>")
	if name, ok := id.NodeName(); ok {
		p.Subscribe = append(p.Subscribe, proto.NodeSubject(name, ">"))
	} else if id != proto.Controllers && id != proto.Bus {
		p.Publish = append(p.Publish, proto.RootNode+".>")
	}
	return p
}
