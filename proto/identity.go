package proto

import (
	"fmt"
	"strings"
)

// Identity names a process on the bus: "apiserver", "controllers", "gateway", "bus",
// "client:<user>" or "node:<name>". A process may publish only under its own identity, so that a
// receiver knows the sender from the subject alone. On the management connection, which no cut
// affects, it is "mgmt:<process>".
type Identity string

// The identities that exist once in a cluster.
const (
	APIServer   Identity = "apiserver"
	Controllers Identity = "controllers"
	Gateway     Identity = "gateway"
	Bus         Identity = "bus"

	// Kubelet and Runtime are the two identities on a node bus.
	Kubelet Identity = "kubelet"
	Runtime Identity = "runtime"
)

const (
	nodePrefix   = "node:"
	clientPrefix = "client:"
	mgmtPrefix   = "mgmt:"
)

// Node returns the identity of the kubelet on the named node.
func Node(name string) Identity { return Identity(nodePrefix + name) }

// Client returns the identity of a user or program at the command line.
func Client(user string) Identity { return Identity(clientPrefix + user) }

// Admin is the identity of users at the command line.
const Admin Identity = clientPrefix + "admin"

// Mgmt returns a process's identity on the management connection. Processes are apiserver,
// controllers, gateway, bus, kubelet/<node> and runtime/<node>.
func Mgmt(process string) Identity { return Identity(mgmtPrefix + process) }

// Process returns the process of a management identity; ok is false for all other identities.
func (id Identity) Process() (name string, ok bool) {
	return strings.CutPrefix(string(id), mgmtPrefix)
}

// NodeName returns the node of a kubelet's identity; ok is false for all other identities.
func (id Identity) NodeName() (name string, ok bool) {
	return strings.CutPrefix(string(id), nodePrefix)
}

// IsUser reports whether id belongs to users and their programs, at the command line or through the
// gateway, and not to a process of the cluster.
func (id Identity) IsUser() bool {
	return id == Gateway || strings.HasPrefix(string(id), clientPrefix)
}

// Class is the part of the watch subjects that id may read: "node.<name>" for a node, "cluster" for
// all others.
func (id Identity) Class() string {
	if name, ok := id.NodeName(); ok {
		return "node." + escape(name)
	}
	return "cluster"
}

// Token returns id as one token of a subject.
func (id Identity) Token() string { return escape(string(id)) }

// ParseIdentity parses a subject token. It refuses names that no process can have.
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
