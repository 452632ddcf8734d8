package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// route is a path of the API (upstream's RequestInfoFactory):
//
//	/api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE/REST
//	/apis/GROUP/VERSION/RESOURCE/NAME/SUBRESOURCE/REST
//	/apis/GROUP/VERSION/watch/…    the deprecated form of ?watch=1
type route struct {
	schema.GroupVersionResource
	namespace   string
	name        string
	subresource string
	// rest follows a subresource: a path below proxy.
	rest string
	// watch means that the path has the deprecated watch prefix.
	watch bool
}

// parseRoute parses a path; false if it is no resource's.
func parseRoute(path string) (route, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var r route
	switch {
	case parts[0] == "api" && len(parts) > 2:
		r.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		r.Group, r.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return route{}, false
	}
	if parts[0] == "watch" && len(parts) > 1 {
		r.watch, parts = true, parts[1:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !isNamespaceSubresource(parts) {
		r.namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	for i, into := range []*string{&r.name, &r.subresource} {
		if len(parts) > i+1 {
			*into = parts[i+1]
		}
	}
	if len(parts) > 3 {
		r.rest = strings.Join(parts[3:], "/")
	}
	return r, true
}

// isNamespaceSubresource distinguishes namespaces/NAME/status from namespaces/NAMESPACE/RESOURCE.
func isNamespaceSubresource(parts []string) bool {
	return len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")
}

// verb is the verb of a method on a route to objects of kind; false if upstream has no such method
// there.
func (r route) verb(method string, kind kinds.Kind, query url.Values) (proto.Verb, bool) {
	everywhere := kind.Namespaced && r.namespace == ""
	switch method {
	case http.MethodGet:
		switch {
		case r.watch, r.name == "" && isTrue(query, "watch"):
			return proto.VerbWatch, r.subresource == ""
		case r.name == "":
			return proto.VerbList, true
		}
		return proto.VerbGet, !everywhere
	case http.MethodPost:
		return proto.VerbCreate, !everywhere && (r.name == "") == (r.subresource == "")
	case http.MethodPut:
		return proto.VerbUpdate, !everywhere && r.name != ""
	case http.MethodPatch:
		return proto.VerbPatch, !everywhere && r.name != ""
	case http.MethodDelete:
		if r.name == "" {
			return proto.VerbDeleteCollection, !everywhere
		}
		return proto.VerbDelete, !everywhere && r.subresource == ""
	}
	return "", false
}
