package admission

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podfall/podfall/proto"
)

// authorizeRelated allows a node to read, one at a time, the objects that its pods need: a Secret
// or a ConfigMap by get, list or watch, a claim, a volume or an attachment by get. It also allows
// tokens of its pods' service accounts.
func authorizeRelated(a Attributes, node, fieldSelector string, related Related) error {
	resource := a.Kind.GroupResource().String()
	name := a.Name
	switch {
	case resource == "serviceaccounts":
		if a.Verb != proto.VerbCreate || a.Subresource != "token" {
			return forbid(a, fmt.Errorf("node %q can only create tokens for individual service accounts", node))
		}
	case a.Subresource != "":
		return forbid(a, notForNodesError(a, node))
	case a.Verb == proto.VerbGet:
	case a.Verb != proto.VerbList && a.Verb != proto.VerbWatch, resource != "secrets" && resource != "configmaps":
		return forbid(a, notForNodesError(a, node))
	default:
		selector, err := fields.ParseSelector(fieldSelector)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("fieldSelector: %v", err))
		}
		name, _ = selector.RequiresExactMatch("metadata.name")
		if name == "" || a.Namespace == "" {
			return forbid(a, fmt.Errorf("node %q can only %s %s of one namespace with the field selector metadata.name=<name>", node, a.Verb, resource))
		}
	}
	if related == nil || !related(node, resource, a.Namespace, name) {
		return forbid(a, fmt.Errorf("no relationship found between node '%s' and this object", node))
	}
	return nil
}
