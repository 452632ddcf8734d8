package kinds

import (
	"cmp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// FromCRD returns the kinds that crd adds: one row for each served version, ordered by client
// preference (v2, v1, v1beta1 …). There is none until the definition is established. The names are
// the accepted names. FromCRD is pure.
//
// The objects are stored in StorageVersion, whether that version is served or not.
func FromCRD(crd *apiextensionsv1.CustomResourceDefinition) []Kind {
	if !isEstablished(crd) {
		return nil
	}
	names := crd.Status.AcceptedNames
	common := Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Kind: names.Kind},
		Resource:         names.Plural,
		Singular:         cmp.Or(names.Singular, strings.ToLower(names.Kind)),
		ShortNames:       names.ShortNames,
		Namespaced:       crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Categories:       names.Categories,
		ListKind:         cmp.Or(names.ListKind, names.Kind+"List"),
		Custom:           true,
	}
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			common.StorageVersion = v.Name
		}
	}
	var rows []Kind
	for _, v := range crd.Spec.Versions {
		if v.Served {
			row := common
			row.Version, row.Subresources = v.Name, subresourceNames(v.Subresources)
			for _, f := range v.SelectableFields {
				row.Selectable = append(row.Selectable, strings.TrimPrefix(f.JSONPath, "."))
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b Kind) int { return version.CompareKubeAwareVersionStrings(b.Version, a.Version) })
	return rows
}

// isEstablished reports whether a definition's names are accepted for good.
func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func subresourceNames(s *apiextensionsv1.CustomResourceSubresources) []string {
	var names []string
	if s != nil && s.Scale != nil {
		names = append(names, "scale")
	}
	if s != nil && s.Status != nil {
		names = append(names, "status")
	}
	return names
}
