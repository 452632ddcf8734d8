package discovery

import (
	"encoding/json"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serveLegacyVersions serves GET /api.
func (h *handler) serveLegacyVersions(now *snapshot, w http.ResponseWriter, r *http.Request) {
	if form, ok := wantsAggregated(r); ok {
		now.respondAggregated(w, r, form)
		return
	}
	respond(w, r, &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host},
		},
	})
}

// serveGroups serves GET /apis.
func (h *handler) serveGroups(now *snapshot, w http.ResponseWriter, r *http.Request) {
	if form, ok := wantsAggregated(r); ok {
		now.respondAggregated(w, r, form)
		return
	}
	respond(w, r, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: now.namedGroups()})
}

// namedGroups are all groups but the legacy group.
func (s *snapshot) namedGroups() []metav1.APIGroup {
	groups := []metav1.APIGroup{}
	for _, list := range s.lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		if gv.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: gv.Version}
		if last := len(groups) - 1; last >= 0 && groups[last].Name == gv.Group {
			groups[last].Versions = append(groups[last].Versions, version)
			continue
		}
		groups = append(groups, metav1.APIGroup{
			Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return groups
}

// serveGroup serves GET /apis/GROUP.
func (h *handler) serveGroup(now *snapshot, w http.ResponseWriter, r *http.Request) {
	for _, group := range now.namedGroups() {
		if group.Name == r.PathValue("group") {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			respond(w, r, &group)
			return
		}
	}
	notFound(w)
}

// serveResources serves GET /api/v1 and /apis/GROUP/VERSION.
func (h *handler) serveResources(now *snapshot, w http.ResponseWriter, r *http.Request) {
	list, ok := now.resourceList(requestedVersion(r))
	switch {
	case ok:
		respond(w, r, &list)
	case now.hasGroup(r.PathValue("group")):
		versionNotFound(w, r)
	default:
		notFound(w)
	}
}

// hasGroup reports whether a group is served in any version.
func (s *snapshot) hasGroup(group string) bool {
	return slices.ContainsFunc(s.lists, func(list metav1.APIResourceList) bool {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		return gv.Group == group
	})
}

// versionNotFound is upstream's answer if the group has no such version.
func versionNotFound(w http.ResponseWriter, r *http.Request) {
	refused := apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, false)
	refused.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := json.Marshal(refused.ErrStatus)
	if err != nil {
		notFound(w)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(data) // the client may have left
}
