package bus

import "github.com/podfall/podfall/proto"

// Permissions are the subjects that an identity may publish and read, as NATS subjects with
// wildcards. The bus refuses everything else.
type Permissions struct {
	Publish   []string
	Subscribe []string
}

// PermissionsFor returns the permissions of an identity:
//
//	everyone       requests and answers as itself, reads its own answers
//	apiserver      serves api, publishes watch
//	all but the two on a node bus   read the watch groups of their own class
//	node:<name>    serves node.<name>
//	client, gateway                 call nodes (logs, exec, inspect)
//	kubelet        calls the runtime, on the node bus
//	runtime        serves cri, on the node bus
//
// On the management connections, which carry no requests and events of the cluster:
//
//	mgmt:<process> reads the fault state, publishes its history, answers inspections
//	mgmt:bus       stores the fault state
//	mgmt:controllers, client:admin   change the fault state
//	they and mgmt:gateway            read histories, inspect processes
//
// Only the owner may read an inbox, and no identity, including the owner, may answer as another.
func PermissionsFor(id proto.Identity) Permissions {
	self := id.Token()
	p := Permissions{
		Publish:   []string{proto.RootReply + ".*." + self + ".>"},
		Subscribe: []string{proto.RootReply + "." + self + ".>"},
	}
	if process, ok := id.Process(); ok {
		return p.union(mgmtPermissions(process))
	}
	if id == proto.Admin {
		p = p.union(inspectPermissions()).union(Permissions{Publish: []string{proto.MgmtFaultStateGet, proto.MgmtFaultStateSet}, Subscribe: []string{proto.MgmtFaultState}})
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

// mgmtPermissions returns a process's permissions on its management connection.
func mgmtPermissions(process string) Permissions {
	p := Permissions{
		Publish:   []string{proto.MgmtFaultStateGet},
		Subscribe: []string{proto.MgmtFaultState, proto.MgmtInspect(process)},
	}
	switch proto.Identity(process) {
	case proto.Bus:
		return p.union(Permissions{Publish: []string{proto.MgmtFaultState}, Subscribe: []string{proto.MgmtFaultStateGet, proto.MgmtFaultStateSet}})
	case proto.Controllers:
		return p.union(inspectPermissions()).union(Permissions{Publish: []string{proto.MgmtFaultStateSet}})
	case proto.Gateway:
		return p.union(inspectPermissions())
	case proto.APIServer, proto.Kubelet, proto.Runtime, proto.Admin: // no more than every process
	}
	return p
}

// inspectPermissions allow inspecting all processes.
func inspectPermissions() Permissions {
	return Permissions{Publish: []string{proto.RootMgmt + ".inspect.*"}}
}

// union returns both permissions together.
func (p Permissions) union(more Permissions) Permissions {
	return Permissions{Publish: append(p.Publish, more.Publish...), Subscribe: append(p.Subscribe, more.Subscribe...)}
}
