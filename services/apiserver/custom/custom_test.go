package custom_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	kind := cronKind(t, catalog)
	sent := `{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"backup","nope":1},
		"spec":{"cronSpec":"* * * * *","image":null,"policy":null,"colour":"red","free":{"any":{"thing":[1]}},
		"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","nope":2},"spec":{"a":1}},
		"steps":[{"name":"a","run":null,"x":1}],"port":"http"},"extra":true}`
	want := map[string]any{
		"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": map[string]any{"name": "backup"},
		"spec": map[string]any{
			"cronSpec": "* * * * *", "image": "busybox", "replicas": int64(1), "port": "http",
			"free":     map[string]any{"any": map[string]any{"thing": []any{int64(1)}}},
			"template": map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"a": int64(1)}},
			"steps":    []any{map[string]any{"name": "a", "run": nil, "retries": int64(2)}},
		},
	}
	obj, warnings, err := catalog.Decode(kind, kinds.ContentTypeJSON, []byte(sent), metav1.FieldValidationWarn)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, content(t, obj)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	wantWarnings := []string{
		`unknown field "metadata.nope"`, `unknown field "extra"`, `unknown field "spec.colour"`,
		`unknown field "spec.steps[0].x"`, `unknown field "spec.template.metadata.nope"`,
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if _, warnings, err := catalog.Decode(kind, "", []byte(sent), metav1.FieldValidationIgnore); err != nil || len(warnings) > 0 {
		t.Errorf("ignoring: %v, %v", warnings, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	kind := cronKind(t, catalog)
	const head = `{"apiVersion":"stable.example.com/v1","kind":"CronTab",`
	for _, tt := range []struct {
		name, contentType, body string
		code                    int32
		message                 string
	}{
		{"unknown fields", "", head + `"spec":{"colour":1}}`, 400, `CronTab in version "v1" cannot be handled as a CronTab: strict decoding error: unknown field "spec.colour"`},
		{"a key twice", "", head + `"spec":{"cronSpec":"a","cronSpec":"b"}}`, 400, `CronTab in version "v1" cannot be handled as a CronTab: strict decoding error: duplicate field "spec.cronSpec"`},
		{"labels that are no map", "", head + `"metadata":{"labels":"x"}}`, 400, `CronTab in version "v1" cannot be handled as a CronTab: json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string`},
		{"an embedded kind that is no text", "", head + `"spec":{"template":{"apiVersion":"v1","kind":7}}}`, 400, `CronTab in version "v1" cannot be handled as a CronTab: spec.template.kind: Invalid value: 7: must be a string`},
		{"another kind", "", `{"apiVersion":"stable.example.com/v1","kind":"Pod"}`, 400, `Pod in version "v1" cannot be handled as a CronTab: converting (v1.Pod) to (v1.CronTab): unknown conversion`},
		{"another group", "", `{"apiVersion":"apps/v1","kind":"CronTab"}`, 400, `the API version in the data (apps/v1) does not match the expected API version (stable.example.com/v1)`},
		{"no object", "", `[]`, 400, `the object provided is unrecognized (must be of type CronTab): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type map[string]interface {} (5b5d)`},
		{"null", "", `null`, 400, `the object provided is unrecognized (must be of type CronTab): couldn't get version/kind; json parse error: want an object (6e756c6c)`},
		{"protobuf", kinds.ContentTypeProtobuf, "k8s\x00", 415, `the body of the request was in an unknown format - accepted media types include: application/json, application/yaml`},
	} {
		_, _, err := catalog.Decode(kind, tt.contentType, []byte(tt.body), metav1.FieldValidationStrict)
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != tt.code || status.Status().Message != tt.message {
			t.Errorf("%s:\n got %v\nwant %d %s", tt.name, err, tt.code, tt.message)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	kind := cronKind(t, catalog)
	for _, tt := range []struct{ name, spec, want string }{
		{"right", `{cronSpec: "* * * * *", replicas: 3}`, ""},
		{"nothing", `{}`, `spec.cronSpec: Required value`},
		{"bounds", `{cronSpec: "* * * * *", replicas: 0}`, `spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1`},
		{"type", `{cronSpec: 7}`, `spec.cronSpec: Invalid value: "integer": spec.cronSpec in body must be of type string: "integer"`},
		{"pattern", `{cronSpec: never}`, `spec.cronSpec: Invalid value: "never": spec.cronSpec in body should match '^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$'`},
		{"enum", `{cronSpec: "* * * * *", policy: Maybe}`, `spec.policy: Unsupported value: "Maybe": supported values: "Allow", "Forbid"`},
		{"too many", `{cronSpec: "* * * * *", steps: [{name: a},{name: b},{name: c},{name: d}]}`, `spec.steps: Too many: 4: must have at most 3 items`},
		{"twice", `{cronSpec: "* * * * *", steps: [{name: a},{name: a}]}`, `spec.steps[1]: Duplicate value: {"name":"a"}`},
		{"int or string", `{cronSpec: "* * * * *", port: true}`, `spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"`},
		{"embedded", `{cronSpec: "* * * * *", template: {kind: "a b"}}`, `spec.template.apiVersion: Required value`},
		{"a rule", `{cronSpec: "* * * * *", replicas: 101}`, `spec: Invalid value: at most a hundred`},
	} {
		obj, _, err := catalog.Decode(kind, "", encode(t, crontab(t, "spec: "+tt.spec)), metav1.FieldValidationStrict)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		strategy, _ := catalog.Strategy(kind)
		err = registry.BeforeCreate(strategy, kind, obj, now(), "u-1")
		switch {
		case tt.want == "" && err != nil, tt.want != "" && err == nil, err != nil && !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
		}
		if tt.want == "" && obj.GetGeneration() != 1 {
			t.Errorf("generation %d", obj.GetGeneration())
		}
	}
}

func content(t *testing.T, obj kinds.Object) map[string]any {
	t.Helper()
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		t.Fatalf("%T is no custom resource", obj)
	}
	return custom.Object
}

func encode(t *testing.T, obj kinds.Object) []byte {
	t.Helper()
	data, err := kinds.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	kind := cronKind(t, catalog)
	strategy, _ := catalog.Strategy(kind)
	const old = "spec: {cronSpec: '* * * * *', replicas: 3, image: x, policy: Wrong}\nstatus: {replicas: 1}\n"
	for _, tt := range []struct {
		name, now, subresource string
		generation             int64
		status                 any
		want                   string
	}{
		{"nothing", old, "", 4, map[string]any{"replicas": int64(1)}, ""},
		{"the spec", strings.Replace(old, "image: x", "image: z", 1), "", 5, map[string]any{"replicas": int64(1)}, ""},
		{"the status beside it", strings.Replace(old, "{replicas: 1}", "{replicas: 9}", 1), "", 4, map[string]any{"replicas": int64(1)}, ""},
		{"the first status beside it", old, "", 4, nil, ""},
		{"the status", strings.Replace(old, "{replicas: 1}", "{replicas: 2}", 1), "status", 4, map[string]any{"replicas": int64(2)}, ""},
		{"the spec beside it", "spec: {}\nstatus: {replicas: 3}", "status", 4, map[string]any{"replicas": int64(3)}, ""},
		{"a wrong status", "status: {replicas: many}", "status", 4, nil, `status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"`},
		{"a status out of bounds", "status: {replicas: -1}", "status", 4, nil, `.status.replicas: Invalid value: -1: should be a non-negative integer`},
		{"what was wrong already", strings.Replace(old, "replicas: 3", "replicas: 4", 1), "", 5, map[string]any{"replicas": int64(1)}, ""},
		{"wrong anew", strings.Replace(old, "Wrong", "Worse", 1), "", 5, nil, `spec.policy: Unsupported value: "Worse"`},
		{"against a rule", strings.Replace(old, "'* * * * *'", "'1 * * * *'", 1), "", 5, nil, `spec.cronSpec: Invalid value: cronSpec was * * * * *`},
	} {
		before, after := crontab(t, old), crontab(t, tt.now)
		if tt.status == nil && tt.want == "" {
			delete(before.Object, "status")
		}
		for _, obj := range []kinds.Object{before, after} {
			obj.SetGeneration(4)
			obj.SetResourceVersion("7")
			obj.SetUID("u-1")
		}
		err := registry.BeforeUpdate(strategy, kind, after, before, tt.subresource)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s:\n got %v\nwant %s", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil || after.GetGeneration() != tt.generation || !cmp.Equal(after.Object["status"], tt.status) {
			t.Errorf("%s: %v, generation %d, status %v", tt.name, err, after.GetGeneration(), after.Object["status"])
		}
		if spec, _, _ := unstructured.NestedString(after.Object, "spec", "cronSpec"); spec == "" {
			t.Errorf("%s: the spec has gone", tt.name)
		}
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	kind := cronKind(t, catalog)
	old := crontab(t, "spec: {cronSpec: '* * * * *', image: x}")
	obj, warnings, err := catalog.Patch(kind, old, types.MergePatchType, []byte(`{"spec":{"image":null,"nope":1}}`), metav1.FieldValidationWarn)
	if err != nil {
		t.Fatal(err)
	}
	if image, _, _ := unstructured.NestedString(content(t, obj), "spec", "image"); image != "busybox" {
		t.Errorf("the image is %q: want its default back", image)
	}
	if !cmp.Equal(warnings, []string{`unknown field "spec.nope"`}) {
		t.Errorf("warnings %q", warnings)
	}
	if _, _, err := catalog.Patch(kind, old, types.StrategicMergePatchType, []byte(`{}`), ""); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("a strategic merge: %v", err)
	}
	if _, _, err := catalog.Patch(kind, old, types.JSONPatchType, []byte(`[{"op":"replace","path":"/kind","value":"Pod"}]`), ""); !apierrors.IsInvalid(err) {
		t.Errorf("a patch that makes it another kind: %v", err)
	}
	if _, _, err := catalog.Patch(kind, old, types.MergePatchType, []byte(`{"spec":{"nope":1}}`), metav1.FieldValidationStrict); !apierrors.IsInvalid(err) {
		t.Errorf("strictly: %v", err)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	strategy, _ := catalog.Strategy(cronKind(t, catalog))
	scaler, ok := strategy.(registry.Scaler)
	if !ok {
		t.Fatal("CronTabs cannot be scaled")
	}
	obj := crontab(t, "spec: {replicas: 3}\nstatus: {replicas: 2, selector: a=b}")
	scale, err := scaler.Scale(obj)
	if err != nil || scale.Spec.Replicas != 3 || scale.Status.Replicas != 2 || scale.Status.Selector != "a=b" {
		t.Errorf("Scale = %v, %v", scale, err)
	}
	scaled, err := scaler.SetReplicas(obj, 5)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := scaler.Scale(scaled); err != nil || again.Spec.Replicas != 5 {
		t.Errorf("then %v, %v", again, err)
	}
	if scale, _ := scaler.Scale(obj); scale.Spec.Replicas != 3 {
		t.Error("SetReplicas changed its argument")
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	catalog := catalogOf(t, definition(t))
	kind := cronKind(t, catalog)
	got := catalog.Fields(kind.GroupResource().String(), crontab(t, "spec: {cronSpec: x}"))
	if got["spec.cronSpec"] != "x" || got["metadata.name"] != "backup" || got["metadata.namespace"] != "default" {
		t.Errorf("fields %v", got)
	}
	if _, err := registry.ParseListOptions(kind, "", metav1.ListOptions{FieldSelector: "spec.cronSpec=x"}); err != nil {
		t.Error(err)
	}
	_, err := registry.ParseListOptions(kind, "", metav1.ListOptions{FieldSelector: "spec.image=x"})
	if err == nil || err.Error() != "field label not supported: spec.image" {
		t.Errorf("spec.image: %v", err)
	}
}
