package openapi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// operation is one method of one path, before it is said in either version of OpenAPI.
type operation struct {
	path, method string
	// id begins with what is done, such as read or replace.
	id          string
	description string
	// action is what Kubernetes calls it: get, list, post, put, patch, delete,
	// deletecollection, connect.
	action string
	gvk    schema.GroupVersionKind
	query  []parameter
	// takes is the definition of the body; empty for none.
	takes string
	// gives is the definition of the answer; empty for text.
	gives string
	// custom says that the kind is one that somebody has defined.
	custom bool
}

// parameter is one query parameter.
type parameter struct{ name, kind, about string }

// place is where a resource lies.
type place struct {
	gv       schema.GroupVersion
	resource metav1.APIResource
	gvk      schema.GroupVersionKind
	// model and list are definitions; list is empty where there are no lists.
	model, list string
	// custom says that the kind is one that somebody has defined.
	custom bool
}

// root is the path of a group and version.
func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// paths are the collection and the object of a resource. A subresource has no collection.
func (p place) paths() (collection, object string) {
	base := root(p.gv)
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

// operations are what can be done with a resource.
func (p place) operations() []operation {
	collection, object := p.paths()
	var ops []operation
	for _, verb := range p.resource.Verbs {
		switch {
		case p.connects():
			method := map[string]string{"get": "get", "create": "post"}[verb]
			ops = append(ops, p.operation(operation{path: object, method: method, id: "connect" + title(method), action: "connect"}))
		case verb == "get":
			ops = append(ops, p.operation(operation{path: object, method: "get", id: "read", action: "get", gives: p.answer()}))
		case verb == "list":
			ops = append(ops, p.lists(collection)...)
		case verb == "create":
			ops = append(ops, p.operation(operation{
				path: cmpOr(collection, object), method: "post", id: "create", action: "post",
				query: writing(), takes: p.model, gives: p.model,
			}))
		case verb == "update":
			ops = append(ops, p.operation(operation{
				path: object, method: "put", id: "replace", action: "put", query: writing(), takes: p.model, gives: p.model,
			}))
		case verb == "patch":
			ops = append(ops, p.operation(operation{
				path: object, method: "patch", id: "patch", action: "patch", query: append(writing(), force()),
				takes: "io.k8s.apimachinery.pkg.apis.meta.v1.Patch", gives: p.model,
			}))
		case verb == "delete":
			ops = append(ops, p.operation(operation{
				path: object, method: "delete", id: "delete", action: "delete", query: deleting(),
				takes: deleteOptions, gives: statusModel,
			}))
		case verb == "deletecollection":
			ops = append(ops, p.operation(operation{
				path: collection, method: "delete", id: "deleteCollection", action: "deletecollection",
				query: append(deleting(), listing()...), takes: deleteOptions, gives: statusModel,
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

// connects reports whether the resource is a stream and no object.
func (p place) connects() bool {
	_, sub, _ := strings.Cut(p.resource.Name, "/")
	return slices.Contains([]string{"attach", "exec", "portforward", "proxy"}, sub)
}

// answer is what reading gives: of a log, text.
func (p place) answer() string {
	if strings.HasSuffix(p.resource.Name, "/log") {
		return ""
	}
	return p.model
}

// lists is the list of a namespace, or of the cluster, and that of all namespaces.
func (p place) lists(collection string) []operation {
	one := operation{path: collection, method: "get", id: "list", action: "list", query: listing(), gives: p.list}
	ops := []operation{p.operation(one)}
	if p.resource.Namespaced {
		everywhere := p
		everywhere.resource.Namespaced = false
		one.path, _ = everywhere.paths()
		all := everywhere.operation(one)
		all.id += "ForAllNamespaces"
		ops = append(ops, all)
	}
	return ops
}

// operation completes one with what the resource says of itself.
func (p place) operation(op operation) operation {
	op.gvk, op.custom = p.gvk, p.custom
	group := "Core"
	if p.gv.Group != "" {
		group = ""
		for word := range strings.SplitSeq(strings.TrimSuffix(p.gv.Group, ".k8s.io"), ".") {
			group += title(word)
		}
	}
	name, sub, _ := strings.Cut(p.resource.Name, "/")
	op.description = strings.TrimSpace(op.id + " " + name + " " + sub)
	scope := ""
	if p.resource.Namespaced {
		scope = "Namespaced"
	}
	op.id += group + title(p.gv.Version) + scope + p.resource.Kind + title(sub)
	return op
}

// tag is what the operations of a group and version are filed under.
func tag(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "core_" + gv.Version
	}
	return strings.ReplaceAll(strings.TrimSuffix(gv.Group, ".k8s.io"), ".", "_") + "_" + gv.Version
}

func title(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// writing are the parameters of whatever stores an object.
func writing() []parameter {
	return []parameter{
		{"dryRun", "string", "All: go through every step and store nothing"},
		{"fieldManager", "string", "who makes the change; at most 128 printable characters"},
		{"fieldValidation", "string", "what to do about unknown and repeated fields: Ignore, Warn or Strict"},
	}
}

func force() parameter {
	return parameter{"force", "boolean", "take over the fields of others; for apply only"}
}

func deleting() []parameter {
	return []parameter{
		{"dryRun", "string", "All: go through every step and store nothing"},
		{"gracePeriodSeconds", "integer", "seconds that the object is given to end; 0 removes it at once"},
		{"orphanDependents", "boolean", "superseded by propagationPolicy"},
		{"propagationPolicy", "string", "what becomes of dependents: Orphan, Background or Foreground"},
	}
}

func listing() []parameter {
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
