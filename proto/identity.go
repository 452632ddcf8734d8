package proto

import (
	"fmt"
	"strings"
)

// Identity names a process on the bus: "apiserver", "controllers", "gateway",
// "bus", "client:<user>" or "node:<name>". A process may publish only under its own
// identity, so a receiver knows the sender from the subject alone. On the management
// plane, which no cut reaches, it is "mgmt:<process>".
type Identity string

// The identities of which a cluster has one each.
const (
	APIServer   Identity = "apiserver"
	Controllers Identity = "controllers"
	Gateway     Identity = "gateway"
	Bus         Identity = "bus"

	// Kubelet and Runtime are the two parties of a node bus.
	Kubelet Identity = "kubelet"
	Runtime Identity = "runtime"
)

const (
	nodePrefix   = "node:"
	clientPrefix = "client:"
	mgmtPrefix   = "mgmt:"
)

// Node is the identity of the kubelet on the named node.
func Node(name string) Identity { return Identity(nodePrefix + name) }

// Client is the identity of a person or a program at the command line.
func Client(user string) Identity { return Identity(clientPrefix + user) }

// Admin is who people at the command line are.
const Admin Identity = clientPrefix + "admin"

// Mgmt is the identity of a process on the management plane: apiserver, controllers,
// gateway, bus, kubelet/<node> or runtime/<node>.
func Mgmt(process string) Identity { return Identity(mgmtPrefix + process) }

// Process is the process that id is of, on the management plane; ok is false for every
// identity that has nothing to do there.
func (id Identity) Process() (name string, ok bool) {
	return strings.CutPrefix(string(id), mgmtPrefix)
}

// NodeName is the node that id speaks for; ok is false for every other identity.
func (id Identity) NodeName() (name string, ok bool) {
	return strings.CutPrefix(string(id), nodePrefix)
}

// Person reports whether id is of people and their programs, at the command line or through
// the gateway, and not of a process of the cluster.
func (id Identity) Person() bool {
	return id == Gateway || strings.HasPrefix(string(id), clientPrefix)
}

// Class is the part of the watch subjects that id may read: "node.<name>" for a
// node, "cluster" for all others.
func (id Identity) Class() string {
	if name, ok := id.NodeName(); ok {
		return "node." + escape(name)
	}
	return "cluster"
}

// Token is id as one token of a subject.
func (id Identity) Token() string { return escape(string(id)) }

// ParseIdentity reads a subject token, and refuses what no process can be called.
func ParseIdentity(token string) (Identity, error) {
	text, err := unescape(token)
	if err != nil {
		return "", fmt.Errorf("identity %q: %w", token, err)
	}
	id := Identity(text)
	switch id {
	case APIServer, Controllers, Gateway, Bus, Kubelet, Runtime, Admin:
		return id, nil
	}
	for _, prefix := range []string{nodePrefix, clientPrefix, mgmtPrefix} {
		if name, ok := strings.CutPrefix(text, prefix); ok && name != "" {
			return id, nil
		}
	}
	return "", fmt.Errorf("identity %q: want apiserver, controllers, gateway, bus, node:<name>, client:<user> or mgmt:<process>", text)
}
