// Package discovery serves /version, /api, /apis and the paths below them, and the OpenAPI
// documents. It knows the built-in kinds and, from the directory, the custom ones. The lists are
// computed once per change of the directory.
//
//	resources.go   the resources and subresources: pure
//	groups.go      the plain lists of groups and versions
//	aggregated.go  all groups in one answer
//	documents.go   OpenAPI 2 and 3
//	answer.go      content negotiation and ETags
//
// # Blocking
//
// Nothing here waits for the cluster. Requests for OpenAPI 2 wait for each other.
package discovery

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Directory lists the kinds that are served now; a *directory.Directory is one.
type Directory interface {
	All() []kinds.Kind
	CRD(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition
	// Changed returns a channel that is closed when All or CRD change.
	Changed() <-chan struct{}
}

// New returns a handler for the kinds of dir and the release that compat imitates.
func New(dir Directory, compat proto.Compat) http.Handler {
	h := &handler{
		dir: dir, release: Release(compat), definitions: openapi.BuiltIn(), mux: http.NewServeMux(),
		fingerprint: sync.OnceValue(fingerprint), building: make(chan struct{}, 1),
	}
	for path, answer := range map[string]func(*snapshot, http.ResponseWriter, *http.Request){
		"/{$}":                               h.servePaths,
		"/version":                           h.serveVersion,
		"/version/{$}":                       h.serveVersion,
		"/api":                               h.serveLegacyVersions,
		"/api/{$}":                           h.serveLegacyVersions,
		"/apis":                              h.serveGroups,
		"/apis/{$}":                          h.serveGroups,
		"/apis/{group}":                      h.serveGroup,
		"/apis/{group}/{$}":                  h.serveGroup,
		"/api/{version}":                     h.serveResources,
		"/api/{version}/{$}":                 h.serveResources,
		"/apis/{group}/{version}":            h.serveResources,
		"/apis/{group}/{version}/{$}":        h.serveResources,
		"/openapi/v2":                        h.serveOpenAPI2,
		"/openapi/v3":                        h.serveOpenAPI3Index,
		"/openapi/v3/{$}":                    h.serveOpenAPI3Index,
		"/openapi/v3/api/{version}":          h.serveOpenAPI3,
		"/openapi/v3/apis/{group}":           h.serveNotFound,
		"/openapi/v3/apis/{group}/{version}": h.serveOpenAPI3,
	} {
		h.mux.HandleFunc(path, h.withSnapshot(answer))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notFound(w) })
	return h
}

// handler serves all requests.
type handler struct {
	dir         Directory
	release     string
	definitions *openapi.Definitions
	fingerprint func() string
	// building holds a token while an OpenAPI 2 document is built.
	building chan struct{}
	mux      *http.ServeMux
	latest   atomic.Pointer[snapshot]
}

// snapshot is what is served between two changes of the directory. It is immutable.
type snapshot struct {
	// lists are the groups and versions, the preferred version of each group first.
	lists []metav1.APIResourceList
	// definitions are the custom kinds, by group and version.
	definitions map[string][]customKind
	// superseded is closed when the directory has changed.
	superseded <-chan struct{}
}

// customKind is a kind with its definition.
type customKind struct {
	kinds.Kind
	crd *apiextensionsv1.CustomResourceDefinition
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// withSnapshot passes the current snapshot to a handler of GET and HEAD requests.
func (h *handler) withSnapshot(answer func(*snapshot, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the server does not allow this method on the requested resource", http.StatusMethodNotAllowed)
			return
		}
		answer(h.currentSnapshot(), w, r)
	}
}

// currentSnapshot returns a snapshot of the directory as it is now.
func (h *handler) currentSnapshot() *snapshot {
	if last := h.latest.Load(); last != nil {
		select {
		case <-last.superseded:
		default:
			return last
		}
	}
	fresh := &snapshot{superseded: h.dir.Changed(), definitions: map[string][]customKind{}}
	all := h.dir.All()
	for _, kind := range all {
		if !kind.Custom {
			continue
		}
		crd := h.dir.CRD(kind.GroupResource())
		if crd == nil {
			continue // deleted since All: the next request gets a new snapshot
		}
		gv := kind.GroupVersion().String()
		fresh.definitions[gv] = append(fresh.definitions[gv], customKind{kind, crd})
	}
	fresh.lists = ResourceLists(all)
	h.latest.Store(fresh)
	return fresh
}

// resourceList returns the resources of a group and version.
func (s *snapshot) resourceList(gv schema.GroupVersion) (metav1.APIResourceList, bool) {
	i := slices.IndexFunc(s.lists, func(l metav1.APIResourceList) bool { return l.GroupVersion == gv.String() })
	if i < 0 {
		return metav1.APIResourceList{}, false
	}
	return s.lists[i], true
}

// servePaths lists the paths.
func (h *handler) servePaths(now *snapshot, w http.ResponseWriter, r *http.Request) {
	paths := []string{"/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
	for _, list := range now.lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		if gv.Group != "" {
			paths = append(paths, "/apis/"+gv.Group)
		}
		paths = append(paths, pathOf(gv))
	}
	slices.Sort(paths)
	respondJSON(w, r, metav1.RootPaths{Paths: slices.Compact(paths)})
}

// pathOf is the path of a group and version.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// requestedVersion is the group and version in a path.
func requestedVersion(r *http.Request) schema.GroupVersion {
	return schema.GroupVersion{Group: r.PathValue("group"), Version: r.PathValue("version")}
}

// serveNotFound answers on paths that look like a document's but are none.
func (*handler) serveNotFound(_ *snapshot, w http.ResponseWriter, _ *http.Request) { notFound(w) }

// notFound is upstream's answer on an unknown path.
func notFound(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }

// joinKey joins strings to one hash key.
func joinKey(parts ...string) string { return strings.Join(parts, "\n") }
