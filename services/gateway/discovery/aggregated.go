package discovery

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// aggregatedForm is one version of the aggregated answer.
type aggregatedForm struct{ version, media string }

// wantsAggregated reports whether the client prefers all groups in one answer: its Accept header
// names that before plain JSON.
func wantsAggregated(r *http.Request) (aggregatedForm, bool) {
	for clause := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		media, params, err := mime.ParseMediaType(clause)
		if err != nil {
			continue
		}
		if params["as"] == "" {
			return aggregatedForm{}, false
		}
		form := aggregatedForm{version: params["v"], media: media}
		known := form.version == "v2" || form.version == "v2beta1"
		readable := media == mediaJSON || media == mediaProtobuf && form.version == "v2"
		if params["g"] == apidiscoveryv2.GroupName && params["as"] == "APIGroupDiscoveryList" && known && readable {
			return form, true
		}
	}
	return aggregatedForm{}, false
}

// respondAggregated answers with the legacy group below /api, and with all others below /apis.
func (s *snapshot) respondAggregated(w http.ResponseWriter, r *http.Request, form aggregatedForm) {
	legacy := !strings.HasPrefix(r.URL.Path, "/apis")
	all := &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.GroupName + "/" + form.version},
		Items:    []apidiscoveryv2.APIGroupDiscovery{},
	}
	for _, list := range s.lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		if (gv.Group == "") != legacy {
			continue
		}
		version := apidiscoveryv2.APIVersionDiscovery{
			Version: gv.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Resources: aggregateResources(gv, list.APIResources),
		}
		if last := len(all.Items) - 1; last >= 0 && all.Items[last].Name == gv.Group {
			all.Items[last].Versions = append(all.Items[last].Versions, version)
			continue
		}
		all.Items = append(all.Items, apidiscoveryv2.APIGroupDiscovery{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Group}, Versions: []apidiscoveryv2.APIVersionDiscovery{version},
		})
	}
	w.Header().Set("Content-Type", form.media+";g="+apidiscoveryv2.GroupName+";v="+form.version+";as=APIGroupDiscoveryList")
	writeObject(w, r, form.media, all)
}

// aggregateResources converts resources to the aggregated form, which nests subresources in their
// resources.
func aggregateResources(gv schema.GroupVersion, resources []metav1.APIResource) []apidiscoveryv2.APIResourceDiscovery {
	var all []apidiscoveryv2.APIResourceDiscovery
	for _, resource := range resources {
		kind := &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: resource.Kind}
		if resource.Version != "" {
			kind.Group, kind.Version = resource.Group, resource.Version
		}
		name, sub, below := strings.Cut(resource.Name, "/")
		if !below {
			scope := apidiscoveryv2.ScopeCluster
			if resource.Namespaced {
				scope = apidiscoveryv2.ScopeNamespace
			}
			all = append(all, apidiscoveryv2.APIResourceDiscovery{
				Resource: name, ResponseKind: kind, Scope: scope, SingularResource: resource.SingularName,
				Verbs: resource.Verbs, ShortNames: resource.ShortNames, Categories: resource.Categories,
			})
			continue
		}
		i := slices.IndexFunc(all, func(r apidiscoveryv2.APIResourceDiscovery) bool { return r.Resource == name })
		all[i].Subresources = append(all[i].Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: sub, ResponseKind: kind, Verbs: resource.Verbs,
		})
	}
	return all
}
