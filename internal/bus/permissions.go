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
// On the management plane, where nobody sees a request or an event of the cluster:
//
//	mgmt:<process> reads the board, tells its history, answers who inspects it
//	mgmt:bus       keeps the board
//	mgmt:controllers, client:admin   change the board
//	they and mgmt:gateway            listen to histories, inspect processes
//
// No one may read an inbox but its owner, and nobody, the owner included, may answer
// as somebody else.
func PermissionsFor(id proto.Identity) Permissions {
	self := id.Token()
	p := Permissions{
		Publish:   []string{proto.RootReply + ".*." + self + ".>"},
		Subscribe: []string{proto.RootReply + "." + self + ".>"},
	}
	if process, ok := id.Process(); ok {
		return p.and(mgmtPermissions(process))
	}
	if id == proto.Admin {
		p = p.and(overseer()).and(Permissions{Publish: []string{proto.MgmtBoardGet, proto.MgmtBoardSet}, Subscribe: []string{proto.MgmtBoard}})
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

// mgmtPermissions are a process's on the management plane.
func mgmtPermissions(process string) Permissions {
	p := Permissions{
		Publish:   []string{proto.MgmtBoardGet},
		Subscribe: []string{proto.MgmtBoard, proto.MgmtInspect(process)},
	}
	switch proto.Identity(process) {
	case proto.Bus:
		return p.and(Permissions{Publish: []string{proto.MgmtBoard}, Subscribe: []string{proto.MgmtBoardGet, proto.MgmtBoardSet}})
	case proto.Controllers:
		return p.and(overseer()).and(Permissions{Publish: []string{proto.MgmtBoardSet}})
	case proto.Gateway:
		return p.and(overseer())
	case proto.APIServer, proto.Kubelet, proto.Runtime, proto.Admin: // as every process
	}
	return p
}

// overseer is who looks at all processes.
func overseer() Permissions {
	return Permissions{Publish: []string{proto.RootMgmt + ".inspect.*"}}
}

// and is both.
func (p Permissions) and(more Permissions) Permissions {
	return Permissions{Publish: append(p.Publish, more.Publish...), Subscribe: append(p.Subscribe, more.Subscribe...)}
}
