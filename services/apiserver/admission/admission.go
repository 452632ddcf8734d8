// Package admission decides whether the sender of a request may do what it asks. It is
// pure. [Authorize] looks at the request alone, before anything is read; [Admit] looks
// at the objects as well, and is asked again for every version that a write is tried
// on.
//
// Nodes get what NodeRestriction and the node authorizer give a kubelet (API-08): their
// own pods and what those refer to, their own Node and Lease, services and events; see
// related.go. Every other identity that the bus
// lets through is an administrator. Nobody may put objects into a namespace that is
// missing or being emptied; see namespace.go.
package admission

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Attributes say which identity asks for what.
type Attributes struct {
	Identity    proto.Identity
	Verb        proto.Verb
	Kind        kinds.Kind
	Subresource string
	Namespace   string
	Name        string
}

// Related reports whether an object concerns a node: a pod that is bound to the node refers to the
// object, or to an object that leads to it.
type Related func(node, resource, namespace, name string) bool

// Authorize refuses a request that its identity may never make; fieldSelector is that of a list or
// a watch. The error is a 403.
func Authorize(a Attributes, fieldSelector string, related Related) error {
	node, ok := a.Identity.NodeName()
	if !ok {
		return nil
	}
	switch a.Kind.GroupResource().String() {
	case "pods":
		return authorizePods(a, node, fieldSelector)
	case "nodes":
		return authorizeNode(a, node)
	case "leases.coordination.k8s.io":
		return authorizeLease(a, node)
	case "secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "volumeattachments.storage.k8s.io":
		return authorizeRelated(a, node, fieldSelector, related)
	case "services", "runtimeclasses.node.k8s.io":
		if a.Subresource == "" && slices.Contains([]proto.Verb{proto.VerbGet, proto.VerbList, proto.VerbWatch}, a.Verb) {
			return nil
		}
	case "events", "events.events.k8s.io":
		if a.Subresource == "" && slices.Contains(eventVerbs(), a.Verb) {
			return nil
		}
	}
	return forbid(a, notForNodesError(a, node))
}

func eventVerbs() []proto.Verb {
	return []proto.Verb{proto.VerbCreate, proto.VerbPatch, proto.VerbUpdate}
}

// authorizePods allows a node to read and delete pods and to write their status; Admit then
// requires that the pods are its own. A list or a watch must select them itself.
func authorizePods(a Attributes, node, fieldSelector string) error {
	switch a.Verb {
	case proto.VerbList, proto.VerbWatch:
		selector, err := fields.ParseSelector(fieldSelector)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
		}
		if value, ok := selector.RequiresExactMatch("spec.nodeName"); ok && value == node {
			return nil
		}
		return forbid(a, fmt.Errorf("node %q can only %s pods with the field selector spec.nodeName=%s", node, a.Verb, node))
	case proto.VerbGet, proto.VerbCreate, proto.VerbDelete:
		if a.Subresource == "" {
			return nil
		}
	case proto.VerbUpdate, proto.VerbPatch:
		if a.Subresource == "status" {
			return nil
		}
	case proto.VerbDeleteCollection:
	}
	return forbid(a, notForNodesError(a, node))
}

func authorizeNode(a Attributes, node string) error {
	switch {
	case a.Verb == proto.VerbDelete, a.Verb == proto.VerbDeleteCollection, a.Verb == proto.VerbList, a.Verb == proto.VerbWatch:
		return forbid(a, notForNodesError(a, node))
	case a.Subresource != "" && a.Subresource != "status":
		return forbid(a, notForNodesError(a, node))
	case a.Name != node && (a.Name != "" || a.Verb != proto.VerbCreate):
		return forbid(a, otherNodeError(a.Verb, node, a.Name))
	}
	return nil
}

// nodeLeases is the namespace in which each node has the lease of its own name.
const nodeLeases = "kube-node-lease"

func authorizeLease(a Attributes, node string) error {
	switch {
	case a.Subresource != "",
		!slices.Contains([]proto.Verb{proto.VerbGet, proto.VerbCreate, proto.VerbUpdate, proto.VerbPatch}, a.Verb):
		return forbid(a, notForNodesError(a, node))
	case a.Namespace != nodeLeases:
		return forbid(a, fmt.Errorf("can only access leases in the %q system namespace", nodeLeases))
	case a.Name != node && (a.Name != "" || a.Verb != proto.VerbCreate):
		return forbid(a, errLeaseName)
	}
	return nil
}

var errLeaseName = errors.New("can only access node lease with the same name as the requesting node")

func notForNodesError(a Attributes, node string) error {
	what := a.Kind.GroupResource().String()
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	return fmt.Errorf("node %q may not %s %s", node, a.Verb, what)
}

func otherNodeError(verb proto.Verb, node, other string) error {
	if verb == proto.VerbGet {
		return fmt.Errorf("node %q is not allowed to read node %q", node, other)
	}
	return fmt.Errorf("node %q is not allowed to modify node %q", node, other)
}

func forbid(a Attributes, err error) error {
	return apierrors.NewForbidden(a.Kind.GroupResource(), a.Name, err)
}
