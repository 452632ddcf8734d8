package openapi_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/proto/kinds"
)

// groups is every group and version with the plain verbs of its kinds.
func groups() []openapi.Group {
	var all []openapi.Group
	index := map[string]int{}
	for _, kind := range kinds.Served() {
		gv := kind.GroupVersion().String()
		i, known := index[gv]
		if !known {
			i = len(all)
			index[gv] = i
			all = append(all, openapi.Group{APIResourceList: metav1.APIResourceList{GroupVersion: gv}})
		}
		all[i].APIResources = append(all[i].APIResources, metav1.APIResource{
			Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Kind,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		})
	}
	return all
}
