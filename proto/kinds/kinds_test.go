package kinds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podfall/podfall/proto/kinds"
)

// absent are the kinds of client-go's scheme that are no row of the table, and why.
func absent() map[string]string {
	return map[string]string{
		"APIGroup":                 "discovery",
		"APIVersions":              "discovery",
		"Binding":                  "a subresource of pods: what creating it changes is the pod",
		"DeploymentRollback":       "a subresource of deployments that upstream has taken away",
		"LocalSubjectAccessReview": "a question to the server; nothing is stored",
		"RangeAllocation":          "upstream's private record of service addresses and ports, not in its API",
		"Scale":                    "a subresource of workloads",
		"SelfSubjectAccessReview":  "a question to the server; nothing is stored",
		"SelfSubjectReview":        "a question to the server; nothing is stored",
		"SelfSubjectRulesReview":   "a question to the server; nothing is stored",
		"SerializedReference":      "the content of an annotation",
		"Status":                   "an answer",
		"SubjectAccessReview":      "a question to the server; nothing is stored",
		"TokenRequest":             "a subresource of serviceaccounts",
		"TokenReview":              "a question to the server; nothing is stored",
		"WatchEvent":               "a frame of a watch",
		"policy/Eviction":          "a subresource of pods",
	}
}

func TestSchemeIsClientGos(t *testing.T) {
	t.Parallel()
	want, have := scheme.Scheme.AllKnownTypes(), kinds.Scheme().AllKnownTypes()
	for gvk, goType := range want {
		if have[gvk] != goType {
			t.Errorf("%s: have Go type %v, client-go has %v", gvk, have[gvk], goType)
		}
	}
	for gvk := range have {
		if _, ok := want[gvk]; !ok && gvk.Group != apiextensionsv1.GroupName {
			t.Errorf("%s: client-go does not know it", gvk)
		}
	}
}

func TestEveryKindIsInTheTable(t *testing.T) {
	t.Parallel()
	reasons := absent()
	used := map[string]bool{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || gvk.Version == "__internal" {
			continue
		}
		reason := gvk.Kind
		if gvk.Group == "policy" && gvk.Kind == "Eviction" {
			reason = "policy/Eviction"
		}
		_, excused := reasons[reason]
		_, served := kinds.ByGVK(gvk)
		if served == excused {
			t.Errorf("%s: in the table %t, excused %t: want one of them", gvk, served, excused)
		}
		used[reason] = used[reason] || excused
	}
	for name := range reasons {
		if !used[name] {
			t.Errorf("excuse for %s: client-go knows no such kind", name)
		}
	}
}

func TestEveryRow(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.Served() {
		obj, err := kinds.New(k.GroupVersionKind)
		if err != nil {
			t.Errorf("%s: %v", k.GroupVersionKind, err)
			continue
		}
		if got := obj.GetObjectKind().GroupVersionKind(); got != k.GroupVersionKind {
			t.Errorf("New(%s) calls itself %s", k.GroupVersionKind, got)
		}
		plural, singular := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
		if k.Resource != plural.Resource || k.Singular != singular.Resource {
			t.Errorf("%s: resource %s/%s, the convention says %s/%s", k.Kind, k.Resource, k.Singular, plural.Resource, singular.Resource)
		}
		preferred, ok := kinds.ByResource(k.GroupResource().String())
		if !ok || preferred.Kind != k.Kind || !cmp.Equal(kinds.Preferred(k), preferred) {
			t.Errorf("%s: group resource %s finds %v", k.GroupVersionKind, k.GroupResource(), preferred)
		}
		others := func(other kinds.Kind) bool { return other.GroupResource() != k.GroupResource() }
		if got, want := kinds.Versions(k.GroupResource()), slices.DeleteFunc(kinds.Served(), others); !cmp.Equal(got, want) {
			t.Errorf("%s: the versions of its group resource are %v, want %v", k.GroupVersionKind, got, want)
		}
		full := k.Resource + "." + k.Version + "." + k.Group
		if byName, ok := kinds.ByAlias(full); !ok || byName.GroupVersionKind != k.GroupVersionKind {
			t.Errorf("%s: alias %s finds %v", k.GroupVersionKind, full, byName)
		}
	}
	if len(kinds.All()) < 70 {
		t.Errorf("the table has %d kinds", len(kinds.All()))
	}
}

func TestByAlias(t *testing.T) {
	t.Parallel()
	tests := []struct{ alias, want string }{
		{"po", "/v1, Kind=Pod"},
		{"pod", "/v1, Kind=Pod"},
		{"pods", "/v1, Kind=Pod"},
		{"Pod", "/v1, Kind=Pod"},
		{"pods.v1.", "/v1, Kind=Pod"},
		{"deploy", "apps/v1, Kind=Deployment"},
		{"deployments.apps", "apps/v1, Kind=Deployment"},
		{"deployments.v1.apps", "apps/v1, Kind=Deployment"},
		{"deployment.v1beta1.apps", "apps/v1beta1, Kind=Deployment"},
		{"deploy.extensions", "extensions/v1beta1, Kind=Deployment"},
		{"ev", "/v1, Kind=Event"},
		{"events.events.k8s.io", "events.k8s.io/v1, Kind=Event"},
		{"hpa", "autoscaling/v2, Kind=HorizontalPodAutoscaler"},
		{"ing", "networking.k8s.io/v1, Kind=Ingress"},
		{"endpoints", "/v1, Kind=Endpoints"},
		{"leases.coordination.k8s.io", "coordination.k8s.io/v1, Kind=Lease"},
		{"widgets", ""},
		{"pods.apps", ""},
		{"pods.v2.", ""},
		{"", ""},
	}
	for _, tt := range tests {
		k, ok := kinds.ByAlias(tt.alias)
		got := ""
		if ok {
			got = k.String()
		}
		if got != tt.want {
			t.Errorf("ByAlias(%q) = %q, want %q", tt.alias, got, tt.want)
		}
	}
}

func TestAllNamesEachResourceOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for _, k := range kinds.All() {
		names = append(names, k.GroupResource().String())
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); len(once) != len(names)-1 { // Events have two groups
		t.Errorf("%d names, %d of them different", len(names), len(once))
	}
	all := kinds.All()
	all[0].Kind = "Changed"
	if kinds.All()[0].Kind == "Changed" {
		t.Error("All shares its slice with the table")
	}
}

func TestNewRefusesWhatIsNotServed(t *testing.T) {
	t.Parallel()
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Binding"},
		{Version: "v1", Kind: "PodList"},
		{Version: "v2", Kind: "Pod"},
		{Group: "example.com", Version: "v1", Kind: "Widget"},
	} {
		if obj, err := kinds.New(gvk); err == nil {
			t.Errorf("New(%s) made %T", gvk, obj)
		}
	}
}

func TestServedByDefault(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.ServedByDefault() {
		if strings.Contains(k.Version, "alpha") || strings.Contains(k.Version, "beta") || k.Group == "extensions" {
			t.Errorf("%s is not served by default", k)
		}
	}
	count := 0
	for _, k := range kinds.ServedByDefault() {
		if k.Resource == "deployments" || k.Resource == "events" || k.Resource == "horizontalpodautoscalers" {
			count++
		}
	}
	if count != 5 { // apps; core and events.k8s.io; autoscaling v1 and v2
		t.Errorf("%d", count)
	}
}
