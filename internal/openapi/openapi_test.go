package openapi_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/proto/kinds"
)

// TestUpToDate: the definitions come from the versions of the Go types that this module
// requires, and every kind that is served has one, and its list.
func TestUpToDate(t *testing.T) {
	definitions := openapi.BuiltIn()
	required, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver"} {
		want := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (\S+)`).FindSubmatch(required)
		if want == nil {
			t.Fatalf("go.mod does not require %s", module)
		}
		if got := definitions.Version(module); got != string(want[1]) {
			t.Errorf("the definitions come from %s %s, but go.mod requires %s: run make generate", module, got, want[1])
		}
	}
	for _, kind := range kinds.Served() {
		for _, gvk := range []schema.GroupVersionKind{kind.GroupVersionKind, kind.GroupVersion().WithKind(kind.ListKind)} {
			if definitions.Name(gvk) == "" {
				t.Errorf("%s has no definition: run make generate", gvk)
			}
		}
	}
}

// TestClosure: a definition comes with all that it refers to, so that Kubernetes' own
// library can merge objects by it.
func TestClosure(t *testing.T) {
	definitions := openapi.BuiltIn()
	for _, kind := range kinds.Served() {
		models := definitions.Closure(definitions.Name(kind.GroupVersionKind))
		schemas, err := models.Schemas()
		if err != nil {
			t.Fatal(err)
		}
		converter, err := managedfields.NewTypeConverter(schemas, false)
		if err != nil {
			t.Fatalf("%s: %v", kind.GroupVersionKind, err)
		}
		obj, err := kinds.New(kind.GroupVersionKind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := converter.ObjectToTyped(obj); err != nil {
			t.Errorf("%s: an empty object: %v", kind.GroupVersionKind, err)
		}
	}
}

// TestV2IsOpenAPI2: Kubernetes' clients read the document with this parser.
func TestV2IsOpenAPI2(t *testing.T) {
	document, err := openapi.BuiltIn().V2("v1.37.2", groups())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := openapiv2.ParseDocument(document)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(parsed.GetDefinitions().GetAdditionalProperties()); got < 500 {
		t.Errorf("%d definitions", got)
	}
	var plain struct {
		Definitions map[string]struct {
			Format     string
			Properties map[string]map[string]any
		}
	}
	if err := json.Unmarshal(document, &plain); err != nil {
		t.Fatal(err)
	}
	if got := plain.Definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"].Format; got != "int-or-string" {
		t.Errorf("IntOrString has the format %q", got)
	}
	spec := plain.Definitions["io.k8s.api.core.v1.Pod"].Properties["spec"]
	if spec["$ref"] != "#/definitions/io.k8s.api.core.v1.PodSpec" || spec["allOf"] != nil || spec["default"] != nil {
		t.Errorf("the spec of a Pod is %v", spec)
	}
}
