package registry_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// TestKindDefaults shows the least object of each kind as it is stored.
func TestKindDefaults(t *testing.T) {
	t.Parallel()
	runCases(t, "testdata/kind_defaults.txt", func(t *testing.T, lines []string) string {
		alias, changes := lines[0], lines[1:]
		obj := stored(t, alias, minimalDocument(t, alias, changes...))
		obj.SetCreationTimestamp(metav1.Time{})
		obj.SetResourceVersion("")
		data, err := yaml.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	})
}

// TestKindValidation says what is wrong with the least object of a kind once it is changed;
// the cases are those of upstream's tables, in our words.
func TestKindValidation(t *testing.T) {
	t.Parallel()
	runCases(t, "testdata/kind_validation.txt", func(t *testing.T, lines []string) string {
		alias, changes := lines[0], lines[1:]
		obj := decode(t, alias, minimalDocument(t, alias, changes...))
		return causes(registry.BeforeCreate(strategy(t, alias), kindOf(t, alias), obj, noon, "uid-1"))
	})
}

// TestKindUpdates says what keeps a stored object from being changed, and its generation
// when nothing does. Lines before the arrow make the stored object, those behind it change
// it.
func TestKindUpdates(t *testing.T) {
	t.Parallel()
	runCases(t, "testdata/kind_updates.txt", func(t *testing.T, lines []string) string {
		alias, create, ask, subresource := lines[0], []string(nil), []string(nil), ""
		into := &create
		for _, line := range lines[1:] {
			if arrow, ok := strings.CutPrefix(line, "->"); ok {
				subresource, into = strings.TrimSpace(arrow), &ask
				continue
			}
			*into = append(*into, line)
		}
		var status []string
		for i := 0; i < len(create); i++ {
			if strings.HasPrefix(create[i], "/status") {
				status = append(status, create[i])
				create = append(create[:i:i], create[i+1:]...)
				i--
			}
		}
		before := changed(t, document(t, stored(t, alias, minimalDocument(t, alias, create...))), status...)
		old, obj := decode(t, alias, before), decode(t, alias, changed(t, before, ask...))
		if err := update(t, alias, obj, old, subresource); err != nil {
			return causes(err)
		}
		return "generation " + string(rune('0'+obj.GetGeneration()))
	})
}

// minimalDocument is the smallest valid object of a kind, changed.
func minimalDocument(t testing.TB, alias string, changes ...string) string {
	t.Helper()
	kind := kindOf(t, alias)
	place := []string{`/apiVersion = "` + kind.GroupVersion().String() + `"`, `/kind = "` + kind.Kind + `"`, `/metadata/name = "a"`}
	if kind.Namespaced {
		place = append(place, `/metadata/namespace = "b"`)
	}
	return changed(t, minimalContent(kind.GroupResource().String()), append(place, changes...)...)
}

// TestDefaultsAreStable: preparing what is prepared changes nothing, for every kind.
func TestDefaultsAreStable(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		obj := minimalObject(t, kind)
		s := registry.For(kind, latest(t))
		if err := registry.PrepareCreate(s, obj, noon, "u"); err != nil {
			t.Fatal(err)
		}
		once := document(t, obj)
		if err := registry.PrepareCreate(s, obj, noon, "u"); err != nil {
			t.Fatal(err)
		}
		if twice := document(t, obj); twice != once {
			t.Errorf("%s: preparing it again made\n%s\nof\n%s", kind.Kind, twice, once)
		}
	}
}

// TestTemplateWarnings: whoever makes a workload is told what its Pods would be told.
func TestTemplateWarnings(t *testing.T) {
	t.Parallel()
	for alias, at := range map[string]string{
		"deployments": "spec.template.spec", "cronjobs": "spec.jobTemplate.spec.template.spec", "pods": "spec",
	} {
		pointer := "/" + strings.ReplaceAll(at, ".", "/")
		obj := decode(t, alias, minimalDocument(t, alias,
			pointer+`/nodeSelector = {"beta.kubernetes.io/os":"linux"}`,
			pointer+`/terminationGracePeriodSeconds = -1`,
			pointer+`/containers/0/env = [{"name":"A"},{"name":"A"}]`,
			pointer+`/containers/0/resources = {"limits":{"memory":"100m"}}`))
		want := strings.ReplaceAll(`@.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead
@.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply
@.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer
@.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`, "@", at)
		if got := strings.Join(strategy(t, alias).Warnings(obj), "\n"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", alias, got, want)
		}
	}
	if said := strategy(t, "configmaps").Warnings(decode(t, "configmaps", minimalDocument(t, "configmaps"))); said != nil {
		t.Errorf("%q", said)
	}
}
