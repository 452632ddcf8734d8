package discovery

import (
	"encoding/json"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// legacyVersions is GET /api.
func (h *handler) legacyVersions(now *served, w http.ResponseWriter, r *http.Request) {
	if form, ok := wantsAggregated(r); ok {
		now.aggregated(w, r, form)
		return
	}
	answer(w, r, &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host},
		},
	})
}

// groups is GET /apis.
func (h *handler) groups(now *served, w http.ResponseWriter, r *http.Request) {
	if form, ok := wantsAggregated(r); ok {
		now.aggregated(w, r, form)
		return
	}
	answer(w, r, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: now.named()})
}

// named are the groups that have names, which all but the first of Kubernetes' do.
func (s *served) named() []metav1.APIGroup {
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

// group is GET /apis/GROUP.
func (h *handler) group(now *served, w http.ResponseWriter, r *http.Request) {
	for _, group := range now.named() {
		if group.Name == r.PathValue("group") {
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			answer(w, r, &group)
			return
		}
	}
	notFound(w)
}

// resources is GET /api/v1 and /apis/GROUP/VERSION.
func (h *handler) resources(now *served, w http.ResponseWriter, r *http.Request) {
	list, ok := now.list(asked(r))
	switch {
	case ok:
		answer(w, r, &list)
	case now.hasGroup(r.PathValue("group")):
		noVersion(w, r)
	default:
		notFound(w)
	}
}

// hasGroup reports whether a group is served in any version.
func (s *served) hasGroup(group string) bool {
	return slices.ContainsFunc(s.lists, func(list metav1.APIResourceList) bool {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		return gv.Group == group
	})
}

// noVersion is what upstream's server answers where it has the group, and not the version.
func noVersion(w http.ResponseWriter, r *http.Request) {
	refused := apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "", "", 0, false)
	refused.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := json.Marshal(refused.ErrStatus)
	if err != nil {
		notFound(w)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(data) // whoever has gone needs no answer
}
