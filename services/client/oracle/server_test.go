package oracle_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/fake"
)

// server is the fake cluster as kubectl knows API servers: discovery, paths, Tables and
// watches over HTTP, as far as kubectl's commands need them.
type server struct {
	cluster *fake.Cluster
	compat  proto.Compat
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var group schema.GroupVersion
	switch {
	case r.URL.Path == "/api":
		answer(w, 200, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	case r.URL.Path == "/apis":
		answer(w, 200, groupList())
		return
	case parts[0] == "api" && len(parts) >= 2:
		group, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case parts[0] == "apis" && len(parts) >= 3:
		group, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		http.NotFound(w, r)
		return
	}
	if len(parts) == 0 {
		answer(w, 200, resourceList(group))
		return
	}
	t, ok := parseTarget(group, parts)
	if !ok {
		refuse(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
		return
	}
	s.serve(w, r, t)
}

func parseTarget(group schema.GroupVersion, parts []string) (podapi.Target, bool) {
	var t podapi.Target
	if parts[0] == "namespaces" && len(parts) > 2 {
		t.Namespace, parts = parts[1], parts[2:]
	}
	kind, ok := kinds.ByResource(group.WithResource(parts[0]).GroupResource().String())
	t.Kind = kind
	if len(parts) > 1 {
		t.Name = parts[1]
	}
	if len(parts) > 2 {
		t.Subresource = parts[2]
	}
	return t, ok
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, t podapi.Target) {
	query := r.URL.Query()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, err)
		return
	}
	switch {
	case r.Method == http.MethodGet && t.Name == "" && (query.Get("watch") == "true" || query.Get("watch") == "1"):
		s.watch(w, r, t)
	case r.Method == http.MethodGet && t.Name == "":
		s.list(w, r, t)
	case r.Method == http.MethodGet:
		obj, err := s.cluster.Get(r.Context(), t, metav1.GetOptions{})
		s.object(w, r, t, obj, err)
	case r.Method == http.MethodDelete:
		var opts metav1.DeleteOptions
		if err := json.Unmarshal(body, &opts); err != nil && len(body) > 0 {
			refuse(w, err)
			return
		}
		if dry := query["dryRun"]; len(dry) > 0 {
			opts.DryRun = dry
		}
		obj, err := s.cluster.Delete(r.Context(), t, opts)
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, 200, obj)
	case r.Method == http.MethodPost:
		obj, err := s.cluster.CreateRaw(r.Context(), t, kinds.ContentTypeJSON, body, metav1.CreateOptions{
			DryRun: query["dryRun"], FieldValidation: query.Get("fieldValidation"),
		})
		s.object(w, r, t, obj, err)
	case r.Method == http.MethodPatch:
		obj, err := s.cluster.Patch(r.Context(), t, types.PatchType(r.Header.Get("Content-Type")), body, metav1.PatchOptions{DryRun: query["dryRun"]})
		s.object(w, r, t, obj, err)
	}
}

func (s *server) wantsTable(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=Table")
}

func (s *server) table(t podapi.Target, objs ...kinds.Object) *metav1.Table {
	table := podview.View{Now: time.Now(), Compat: s.compat}.Table(t.Kind.GroupVersionKind, objs...)
	for i, obj := range objs {
		table.Rows[i].Object = runtime.RawExtension{Object: podview.Partial(obj)}
	}
	return table
}

func (s *server) object(w http.ResponseWriter, r *http.Request, t podapi.Target, obj kinds.Object, err error) {
	switch {
	case err != nil:
		refuse(w, err)
	case s.wantsTable(r):
		answer(w, 200, s.table(t, obj))
	default:
		answer(w, 200, obj)
	}
}

func listOptions(r *http.Request) metav1.ListOptions {
	query := r.URL.Query()
	limit, _ := strconv.ParseInt(query.Get("limit"), 10, 64)
	return metav1.ListOptions{
		LabelSelector: query.Get("labelSelector"), FieldSelector: query.Get("fieldSelector"),
		ResourceVersion: query.Get("resourceVersion"), Limit: limit, Continue: query.Get("continue"),
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request, t podapi.Target) {
	list, err := s.cluster.List(r.Context(), t, listOptions(r))
	if err != nil {
		refuse(w, err)
		return
	}
	if s.wantsTable(r) {
		table := s.table(t, list.Items...)
		table.ResourceVersion, table.Continue = list.ResourceVersion, list.Continue
		answer(w, 200, table)
		return
	}
	answer(w, 200, map[string]any{
		"kind": t.Kind.Kind + "List", "apiVersion": t.Kind.GroupVersion().String(),
		"metadata": map[string]any{"resourceVersion": list.ResourceVersion, "continue": list.Continue},
		"items":    append([]kinds.Object{}, list.Items...),
	})
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, t podapi.Target) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		refuse(w, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil))
		return
	}
	events, err := s.cluster.Watch(r.Context(), t, listOptions(r))
	if err != nil {
		refuse(w, err)
		return
	}
	defer events.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event, open := <-events.ResultChan():
			if !open {
				return
			}
			if obj, ok := event.Object.(kinds.Object); ok && s.wantsTable(r) {
				event.Object = s.table(t, obj)
			}
			send(w, event)
		}
	}
}

func send(w http.ResponseWriter, event watch.Event) {
	_ = json.NewEncoder(w).Encode(metav1.WatchEvent{Type: string(event.Type), Object: runtime.RawExtension{Object: event.Object}})
	_ = http.NewResponseController(w).Flush()
}

func answer(w http.ResponseWriter, code int, obj any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(obj)
}

func refuse(w http.ResponseWriter, err error) {
	status := proto.StatusFrom(err)
	answer(w, int(status.Code), status)
}

func groupList() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	seen := map[string]bool{"": true}
	for _, kind := range kinds.All() {
		if seen[kind.Group] || !slices.Contains([]string{"apps", "coordination.k8s.io", "discovery.k8s.io"}, kind.Group) {
			continue // kubectl asks for each group in turn
		}
		seen[kind.Group] = true
		version := metav1.GroupVersionForDiscovery{GroupVersion: kind.GroupVersion().String(), Version: kind.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: kind.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return list
}

func resourceList(group schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group.String()}
	for _, kind := range kinds.All() {
		if kind.GroupVersion() == group {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Kind,
				ShortNames: kind.ShortNames, Categories: kind.Categories,
				Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"},
			})
		}
	}
	return list
}
