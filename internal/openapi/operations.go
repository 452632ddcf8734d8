package openapi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// operation is one method of one path, independent of the OpenAPI version.
type operation struct {
	path, method string
	// id begins with the action, for example read or replace.
	id          string
	description string
	// action is the value of x-kubernetes-action: get, list, post, put, patch, delete,
	// deletecollection, connect.
	action string
	gvk    schema.GroupVersionKind
	query  []parameter
	// requestModel is the definition of the body; empty for none.
	requestModel string
	// responseModel is the definition of the response; empty for text.
	responseModel string
	// custom is set for custom kinds.
	custom bool
}

// parameter is one query parameter.
type parameter struct{ name, kind, description string }

// endpoint is one resource with its definitions.
type endpoint struct {
	gv       schema.GroupVersion
	resource metav1.APIResource
	gvk      schema.GroupVersionKind
	// model and list are definitions; list is empty for resources without lists.
	model, list string
	// custom is set for custom kinds.
	custom bool
}

// groupPath returns the path of a group and version.
func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// paths returns the paths of the collection and the object. A subresource has no collection.
func (p endpoint) paths() (collection, object string) {
	base := groupPath(p.gv)
	if p.resource.Namespaced {
		base += "/namespaces/{namespace}"
	}
	name, sub, isSub := strings.Cut(p.resource.Name, "/")
	object = base + "/" + name + "/{name}"
	if isSub {
		return "", object + "/" + sub
	}
	return base + "/" + name, object
}

// operations returns the operations of a resource.
func (p endpoint) operations() []operation {
	collection, object := p.paths()
	var ops []operation
	for _, verb := range p.resource.Verbs {
		switch {
		case p.isStream():
			method := map[string]string{"get": "get", "create": "post"}[verb]
			ops = append(ops, p.complete(operation{path: object, method: method, id: "connect" + capitalize(method), action: "connect"}))
		case verb == "get":
			ops = append(ops, p.complete(operation{path: object, method: "get", id: "read", action: "get", responseModel: p.getModel()}))
		case verb == "list":
			ops = append(ops, p.listOperations(collection)...)
		case verb == "create":
			ops = append(ops, p.complete(operation{
				path: firstNonEmpty(collection, object), method: "post", id: "create", action: "post",
				query: writeParameters(), requestModel: p.model, responseModel: p.model,
			}))
		case verb == "update":
			ops = append(ops, p.complete(operation{
				path: object, method: "put", id: "replace", action: "put", query: writeParameters(), requestModel: p.model, responseModel: p.model,
			}))
		case verb == "patch":
			ops = append(ops, p.complete(operation{
				path: object, method: "patch", id: "patch", action: "patch", query: append(writeParameters(), forceParameter()),
				requestModel: "io.k8s.apimachinery.pkg.apis.meta.v1.Patch", responseModel: p.model,
			}))
		case verb == "delete":
			ops = append(ops, p.complete(operation{
				path: object, method: "delete", id: "delete", action: "delete", query: deleteParameters(),
				requestModel: deleteOptions, responseModel: statusModel,
			}))
		case verb == "deletecollection":
			ops = append(ops, p.complete(operation{
				path: collection, method: "delete", id: "deleteCollection", action: "deletecollection",
				query: append(deleteParameters(), listParameters()...), requestModel: deleteOptions, responseModel: statusModel,
			}))
		}
	}
	return ops
}

// The definitions that belong to no kind.
const (
	deleteOptions = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
	statusModel   = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
)

// isStream reports whether the resource is a stream and not an object.
func (p endpoint) isStream() bool {
	_, sub, _ := strings.Cut(p.resource.Name, "/")
	return slices.Contains([]string{"attach", "exec", "portforward", "proxy"}, sub)
}

// getModel returns the definition of a get's response; empty for logs, which are text.
func (p endpoint) getModel() string {
	if strings.HasSuffix(p.resource.Name, "/log") {
		return ""
	}
	return p.model
}

// listOperations returns the list of a namespace or of the cluster, and for namespaced resources
// that of all namespaces.
func (p endpoint) listOperations(collection string) []operation {
	one := operation{path: collection, method: "get", id: "list", action: "list", query: listParameters(), responseModel: p.list}
	ops := []operation{p.complete(one)}
	if p.resource.Namespaced {
		everywhere := p
		everywhere.resource.Namespaced = false
		one.path, _ = everywhere.paths()
		all := everywhere.complete(one)
		all.id += "ForAllNamespaces"
		ops = append(ops, all)
	}
	return ops
}

// complete fills in the fields that depend on the resource.
func (p endpoint) complete(op operation) operation {
	op.gvk, op.custom = p.gvk, p.custom
	group := "Core"
	if p.gv.Group != "" {
		group = ""
		for word := range strings.SplitSeq(strings.TrimSuffix(p.gv.Group, ".k8s.io"), ".") {
			group += capitalize(word)
		}
	}
	name, sub, _ := strings.Cut(p.resource.Name, "/")
	op.description = strings.TrimSpace(op.id + " " + name + " " + sub)
	scope := ""
	if p.resource.Namespaced {
		scope = "Namespaced"
	}
	op.id += group + capitalize(p.gv.Version) + scope + p.resource.Kind + capitalize(sub)
	return op
}

// groupTag returns the tag of the operations of a group and version.
func groupTag(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "core_" + gv.Version
	}
	return strings.ReplaceAll(strings.TrimSuffix(gv.Group, ".k8s.io"), ".", "_") + "_" + gv.Version
}

func capitalize(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// writeParameters returns the parameters of requests that store an object.
func writeParameters() []parameter {
	return []parameter{
		{"dryRun", "string", "All: go through every step and store nothing"},
		{"fieldManager", "string", "who makes the change; at most 128 printable characters"},
		{"fieldValidation", "string", "what to do about unknown and repeated fields: Ignore, Warn or Strict"},
	}
}

func forceParameter() parameter {
	return parameter{"force", "boolean", "take over the fields of others; for apply only"}
}

func deleteParameters() []parameter {
	return []parameter{
		{"dryRun", "string", "All: go through every step and store nothing"},
		{"gracePeriodSeconds", "integer", "seconds that the object is given to end; 0 removes it at once"},
		{"orphanDependents", "boolean", "superseded by propagationPolicy"},
		{"propagationPolicy", "string", "what becomes of dependents: Orphan, Background or Foreground"},
	}
}

func listParameters() []parameter {
	return []parameter{
		{"allowWatchBookmarks", "boolean", "send BOOKMARK events to a watch"},
		{"continue", "string", "go on where the page before ended"},
		{"fieldSelector", "string", "only objects with these fields"},
		{"labelSelector", "string", "only objects with these labels"},
		{"limit", "integer", "how many objects a page has at most"},
		{"resourceVersion", "string", "the version that is asked for"},
		{"resourceVersionMatch", "string", "how resourceVersion is meant: Exact or NotOlderThan"},
		{"sendInitialEvents", "boolean", "begin a watch with the objects there are"},
		{"timeoutSeconds", "integer", "seconds after which a list or a watch ends"},
		{"watch", "boolean", "send changes instead of a list"},
	}
}
