package gateway

import (
	"cmp"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/podfall/podfall/proto/kinds"
)

// The methods of API types that say when a version is deprecated, removed or replaced. Upstream's
// package deprecation reads the same.
type (
	deprecated interface{ APILifecycleDeprecated() (major, minor int) }
	removed    interface{ APILifecycleRemoved() (major, minor int) }
	replaced   interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}
)

// deprecationWarning warns about a kind in a release ("v1.37"); empty for most kinds. crd is the
// definition of a custom kind.
func deprecationWarning(kind kinds.Kind, crd *apiextensionsv1.CustomResourceDefinition, release string) string {
	if crd != nil {
		return customDeprecationWarning(kind, crd)
	}
	obj, err := kinds.NewOf(kind)
	if err != nil {
		return ""
	}
	since, ok := runtime.Object(obj).(deprecated)
	if !ok {
		return ""
	}
	major, minor := since.APILifecycleDeprecated()
	if isNewerThan(major, minor, release) {
		return ""
	}
	text := fmt.Sprintf("%s %s is deprecated in v%d.%d+", kind.GroupVersion(), kind.Kind, major, minor)
	if end, ok := runtime.Object(obj).(removed); ok {
		if major, minor := end.APILifecycleRemoved(); major > 0 {
			text += fmt.Sprintf(", unavailable in v%d.%d+", major, minor)
		}
	}
	if successor, ok := runtime.Object(obj).(replaced); ok {
		if better := successor.APILifecycleReplacement(); !better.Empty() {
			text += fmt.Sprintf("; use %s %s", better.GroupVersion(), better.Kind)
		}
	}
	return text
}

// isNewerThan reports whether a version came after a release.
func isNewerThan(major, minor int, release string) bool {
	var inMajor, inMinor int
	if _, err := fmt.Sscanf(release, "v%d.%d", &inMajor, &inMinor); err != nil {
		return false
	}
	return cmp.Or(cmp.Compare(major, inMajor), cmp.Compare(minor, inMinor)) > 0
}

// customDeprecationWarning is the definition's own warning about a version, or one that names the
// best version (upstream's defaultDeprecationWarning).
func customDeprecationWarning(kind kinds.Kind, crd *apiextensionsv1.CustomResourceDefinition) string {
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == kind.Version })
	if at < 0 || !crd.Spec.Versions[at].Deprecated {
		return ""
	}
	if own := crd.Spec.Versions[at].DeprecationWarning; own != nil {
		return *own
	}
	text := fmt.Sprintf("%s %s is deprecated", kind.GroupVersion(), kind.Kind)
	best := kind.Version
	for _, v := range crd.Spec.Versions {
		if v.Served && !v.Deprecated && version.CompareKubeAwareVersionStrings(best, v.Name) < 0 {
			best = v.Name
		}
	}
	if best != kind.Version {
		text += fmt.Sprintf("; use %s/%s %s", kind.Group, best, kind.Kind)
	}
	return text
}
