// Package discovery tells clients what there is: /version, /api, /apis and what is below
// them, and the OpenAPI documents. It knows the built-in kinds and, from the directory, the
// custom ones; what is announced is computed once per change of the directory.
//
//	resources.go   which resources and subresources there are: pure
//	groups.go      them, as the plain lists of groups and versions
//	aggregated.go  them, all in one answer
//	documents.go   them, as OpenAPI 2 and 3
//	answer.go      what a client wants to read, and whether it has it already
//
// # Blocking
//
// Nothing here waits for the cluster. Who asks for OpenAPI 2 waits for who has asked before.
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

// Directory knows which kinds are served now; a *directory.Directory is one.
type Directory interface {
	All() []kinds.Kind
	CRD(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition
	// Changed is closed when the others have something new to say.
	Changed() <-chan struct{}
}

// New answers for what dir knows, in the name of the release that compat imitates.
func New(dir Directory, compat proto.Compat) http.Handler {
	h := &handler{
		dir: dir, release: Release(compat), definitions: openapi.BuiltIn(), mux: http.NewServeMux(),
		fingerprint: sync.OnceValue(fingerprint), making: make(chan struct{}, 1),
	}
	for path, answer := range map[string]func(*served, http.ResponseWriter, *http.Request){
		"/{$}":                               h.root,
		"/version":                           h.version,
		"/version/{$}":                       h.version,
		"/api":                               h.legacyVersions,
		"/api/{$}":                           h.legacyVersions,
		"/apis":                              h.groups,
		"/apis/{$}":                          h.groups,
		"/apis/{group}":                      h.group,
		"/apis/{group}/{$}":                  h.group,
		"/api/{version}":                     h.resources,
		"/api/{version}/{$}":                 h.resources,
		"/apis/{group}/{version}":            h.resources,
		"/apis/{group}/{version}/{$}":        h.resources,
		"/openapi/v2":                        h.openAPI2,
		"/openapi/v3":                        h.openAPI3Index,
		"/openapi/v3/{$}":                    h.openAPI3Index,
		"/openapi/v3/api/{version}":          h.openAPI3,
		"/openapi/v3/apis/{group}":           h.noDocument,
		"/openapi/v3/apis/{group}/{version}": h.openAPI3,
	} {
		h.mux.HandleFunc(path, h.with(answer))
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notFound(w) })
	return h
}

// handler is what every request sees.
type handler struct {
	dir         Directory
	release     string
	definitions *openapi.Definitions
	fingerprint func() string
	// making holds a token while a document of OpenAPI 2 is made.
	making chan struct{}
	mux    *http.ServeMux
	last   atomic.Pointer[served]
}

// served is what is announced between two changes of the directory; it is immutable.
type served struct {
	// lists are the groups and versions, the preferred version of each group first.
	lists []metav1.APIResourceList
	// definitions are those of the custom kinds, by group and version.
	definitions map[string][]customKind
	// superseded is closed when there is something newer.
	superseded <-chan struct{}
}

// customKind is a kind and what defines it.
type customKind struct {
	kinds.Kind
	crd *apiextensionsv1.CustomResourceDefinition
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// with gives a request what is served now. Only reading is possible here.
func (h *handler) with(answer func(*served, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the server does not allow this method on the requested resource", http.StatusMethodNotAllowed)
			return
		}
		answer(h.now(), w, r)
	}
}

// now is what is served now.
func (h *handler) now() *served {
	if last := h.last.Load(); last != nil {
		select {
		case <-last.superseded:
		default:
			return last
		}
	}
	fresh := &served{superseded: h.dir.Changed(), definitions: map[string][]customKind{}}
	all := h.dir.All()
	for _, kind := range all {
		if !kind.Custom {
			continue
		}
		crd := h.dir.CRD(kind.GroupResource())
		if crd == nil {
			continue // gone between two looks: the next request will see that
		}
		gv := kind.GroupVersion().String()
		fresh.definitions[gv] = append(fresh.definitions[gv], customKind{kind, crd})
	}
	fresh.lists = Lists(all)
	h.last.Store(fresh)
	return fresh
}

// list is the resources of a group and version.
func (s *served) list(gv schema.GroupVersion) (metav1.APIResourceList, bool) {
	i := slices.IndexFunc(s.lists, func(l metav1.APIResourceList) bool { return l.GroupVersion == gv.String() })
	if i < 0 {
		return metav1.APIResourceList{}, false
	}
	return s.lists[i], true
}

// root lists the paths.
func (h *handler) root(now *served, w http.ResponseWriter, r *http.Request) {
	paths := []string{"/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"}
	for _, list := range now.lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		if gv.Group != "" {
			paths = append(paths, "/apis/"+gv.Group)
		}
		paths = append(paths, pathOf(gv))
	}
	slices.Sort(paths)
	answerJSON(w, r, metav1.RootPaths{Paths: slices.Compact(paths)})
}

// pathOf is the path of a group and version.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// asked is the group and version in a path.
func asked(r *http.Request) schema.GroupVersion {
	return schema.GroupVersion{Group: r.PathValue("group"), Version: r.PathValue("version")}
}

// noDocument is for paths that look like a document's and are none.
func (*handler) noDocument(_ *served, w http.ResponseWriter, _ *http.Request) { notFound(w) }

// notFound is what upstream's server answers to a path that is nothing.
func notFound(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }

// joined is what a few strings read as one key.
func joined(parts ...string) string { return strings.Join(parts, "\n") }
