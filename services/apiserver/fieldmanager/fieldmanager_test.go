package fieldmanager_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/fieldmanager"
)

// rig applies to one object, as the verbs would.
type rig struct {
	*testing.T

	fields *fieldmanager.Fields
	kind   kinds.Kind
	obj    kinds.Object
	now    time.Time
}

func newRig(t *testing.T, resource string) *rig {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		t.Fatalf("no kind %s", resource)
	}
	return &rig{T: t, fields: fieldmanager.New(nil), kind: kind, now: time.Unix(1_700_000_000, 0)}
}

// apply has manager apply a manifest; "!" after its name means force, "/status" the
// subresource.
func (r *rig) apply(manager, manifest string) error {
	r.Helper()
	name, force := strings.CutSuffix(manager, "!")
	name, sub, _ := strings.Cut(name, "/")
	write := fieldmanager.Write{Kind: r.kind, Manager: name, Subresource: sub}
	obj, _, err := r.fields.Apply(write, r.obj, fieldmanager.Patch{Data: []byte(manifest), Force: force})
	if err != nil {
		return err
	}
	r.store(obj)
	return nil
}

// update has manager change the object by hand.
func (r *rig) update(manager string, change func(kinds.Object)) {
	r.Helper()
	obj, _ := r.obj.DeepCopyObject().(kinds.Object)
	change(obj)
	name, sub, _ := strings.Cut(manager, "/")
	if fieldmanager.IsTracked(name, obj, r.obj) {
		r.fields.Track(fieldmanager.Write{Kind: r.kind, Manager: name, Subresource: sub}, obj, r.obj)
	}
	r.store(obj)
}

// store is what the store does: times, and an identity.
func (r *rig) store(obj kinds.Object) {
	fieldmanager.StampTimes(obj, r.obj, r.now)
	obj.SetUID("one")
	r.obj = obj
	r.now = r.now.Add(time.Minute)
}

// must stops at an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// owners is who owns what: "manager operation subresource: fields".
func (r *rig) owners() []string {
	var all []string
	for _, e := range r.obj.GetManagedFields() {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Manager, e.Operation, e.Subresource))+": "+e.FieldsV1.GetRawString())
	}
	return all
}

func (r *rig) want(path []string, want string) {
	r.Helper()
	data, _ := json.Marshal(r.obj)
	var fields map[string]any
	_ = json.Unmarshal(data, &fields)
	got, _, _ := unstructured.NestedFieldNoCopy(fields, path...)
	text, _ := json.Marshal(got)
	if string(text) != want {
		r.Errorf("%s: got %s, want %s", strings.Join(path, "."), text, want)
	}
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: nginx:1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        ports: [{containerPort: 80, name: http}, {containerPort: 80, protocol: UDP}]
`

// TestMergesByKey: lists with keys are merged item by item: env by name, ports by port and
// protocol, where no protocol means TCP. The last to apply says the order.
func TestMergesByKey(t *testing.T) {
	r := newRig(t, "deployments.apps")
	r.must(r.apply("one", deployment))
	r.must(r.apply("two", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: main
        env: [{name: C, value: "3"}, {name: A, value: "1"}]
        ports: [{containerPort: 443}]
`))
	r.want([]string{"spec", "template", "spec", "containers"}, `[{"env":[{"name":"C","value":"3"},{"name":"A","value":"1"},`+
		`{"name":"B","value":"2"}],"image":"nginx:1","name":"main","ports":[{"containerPort":80,"name":"http"},`+
		`{"containerPort":80,"protocol":"UDP"},{"containerPort":443}],"resources":{}}]`)
	// What one no longer wants goes, unless another wants it too.
	r.must(r.apply("one", strings.Replace(deployment, `env: [{name: A, value: "1"}, {name: B, value: "2"}]`, "env: []", 1)))
	r.want([]string{"spec", "template", "spec", "containers"}, `[{"env":[{"name":"C","value":"3"},{"name":"A","value":"1"}],`+
		`"image":"nginx:1","name":"main","ports":[{"containerPort":80,"name":"http"},`+
		`{"containerPort":80,"protocol":"UDP"},{"containerPort":443}],"resources":{}}]`)
}

// TestListsOfEachType: a set is a union, a list without keys belongs to one, and a map of
// limits to many.
func TestListsOfEachType(t *testing.T) {
	pod := func(metadata, container string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: d, %s}\nspec: {containers: [{name: main, %s}]}\n", metadata, container)
	}
	r := newRig(t, "pods")
	r.must(r.apply("one", pod("finalizers: [a/b]", "image: i, args: [x], resources: {limits: {cpu: \"1\"}}")))
	r.must(r.apply("two", pod("finalizers: [c/d]", "resources: {limits: {memory: 1Gi}}")))
	r.want([]string{"metadata", "finalizers"}, `["a/b","c/d"]`)
	r.want([]string{"spec", "containers"}, `[{"args":["x"],"image":"i","name":"main","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]`)
	err := r.apply("two", pod("finalizers: [c/d]", "args: [x, z]"))
	if want := `Apply failed with 1 conflict: conflict with "one": .spec.containers[name="main"].args`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	r.must(r.apply("one", pod("", "image: i")))
	r.want([]string{"metadata", "finalizers"}, `["c/d"]`)
	r.want([]string{"spec", "containers"}, `[{"image":"i","name":"main","resources":{"limits":{"memory":"1Gi"}}}]`)

	r = newRig(t, "services")
	service := func(ports string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: d}\nspec: {ports: [" + ports + "]}\n"
	}
	r.must(r.apply("one", service("{port: 80}")))
	r.must(r.apply("two", service("{port: 80, protocol: UDP}, {port: 80, protocol: TCP, name: web}")))
	r.want([]string{"spec", "ports"}, `[{"port":80,"protocol":"UDP","targetPort":0},{"name":"web","port":80,"protocol":"TCP","targetPort":0}]`)
}

// statusOf is a refusal.
func statusOf(t *testing.T, err error) metav1.Status {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return status.Status()
}

// TestConflict: a field that somebody else has set is theirs until it is taken by force.
func TestConflict(t *testing.T) {
	r := newRig(t, "deployments.apps")
	r.must(r.apply("one", deployment))
	other := strings.Replace(strings.Replace(deployment, "replicas: 3", "replicas: 5", 1), "nginx:1", "nginx:2", 1)
	err := r.apply("two", other)
	want := "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.replicas\n- .spec.template.spec.containers[name=\"main\"].image"
	if !apierrors.IsConflict(err) || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	status := statusOf(t, err)
	if len(status.Details.Causes) != 2 || status.Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict ||
		status.Details.Causes[0].Field != ".spec.replicas" || status.Details.Causes[0].Message != `conflict with "one"` {
		t.Errorf("causes are %+v", status.Details.Causes)
	}
	r.must(r.apply("two!", other))
	r.want([]string{"spec", "replicas"}, "5")
	for _, owner := range r.owners() {
		if strings.HasPrefix(owner, "one ") && strings.Contains(owner, "f:replicas") {
			t.Errorf("one still owns replicas: %s", owner)
		}
	}
	// Agreeing is no conflict: both own the field.
	r.must(r.apply("three", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5}\n"))
	var owning int
	for _, owner := range r.owners() {
		if strings.Contains(owner, "f:replicas") {
			owning++
		}
	}
	if owning != 2 {
		t.Errorf("%d own replicas, want 2: %q", owning, r.owners())
	}
}

// TestUpdates: a write by hand takes the fields that it changes, and only those; a conflict
// then names the one who made it and when.
func TestUpdates(t *testing.T) {
	r := newRig(t, "deployments.apps")
	r.must(r.apply("one", deployment))
	r.update("kubectl-edit", func(obj kinds.Object) {
		d, _ := obj.(*appsv1.Deployment)
		d.Spec.Replicas = new(int32(9))
	})
	if want := `kubectl-edit Update: {"f:spec":{"f:replicas":{}}}`; !slices.Contains(r.owners(), want) {
		t.Errorf("want %s among %q", want, r.owners())
	}
	err := r.apply("one", deployment)
	if want := `Apply failed with 1 conflict: conflict with "kubectl-edit" using apps/v1: .spec.replicas`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// The status has a subresource of its own.
	r.update("kubelet/status", func(obj kinds.Object) {
		d, _ := obj.(*appsv1.Deployment)
		d.Status.Replicas, d.Spec.Replicas = 4, new(int32(2))
	})
	if want := `kubelet Update status: {"f:status":{"f:replicas":{}}}`; !slices.Contains(r.owners(), want) {
		t.Errorf("want %s among %q", want, r.owners())
	}
}

// TestClientSideApply: kubectl's last-applied annotation gives way to kubectl's own apply.
func TestClientSideApply(t *testing.T) {
	r := newRig(t, "configmaps")
	config := func(value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {k: %q}\n", value)
	}
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Data: map[string]string{"k": "1"}}
	created.SetGroupVersionKind(r.kind.GroupVersionKind)
	created.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"apiVersion":"v1","data":{"k":"1"},"kind":"ConfigMap","metadata":{"name":"c","namespace":"default"}}`,
	}
	r.fields.Track(fieldmanager.Write{Kind: r.kind, Manager: "kubectl-client-side-apply"}, created, nil)
	r.store(created)
	err := r.apply("other", config("2"))
	if want := `Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.k`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	r.must(r.apply("kubectl", config("2")))
	r.want([]string{"data", "k"}, `"2"`)
	if last := r.obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; !strings.Contains(last, `"k":"2"`) {
		t.Errorf("the annotation says %s", last)
	}
}

// TestBeforeFirstApply: what there was before the first apply is nobody's in particular.
func TestBeforeFirstApply(t *testing.T) {
	r := newRig(t, "configmaps")
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "one"}, Data: map[string]string{"k": "1", "l": "1"}}
	old.SetGroupVersionKind(r.kind.GroupVersionKind)
	r.obj = old
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {k: \"%s\"}\n"
	err := r.apply("one", fmt.Sprintf(manifest, "2"))
	if want := `Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.k`; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	r.must(r.apply("one", fmt.Sprintf(manifest, "1")))
	want := []string{
		`one Apply: {"f:data":{"f:k":{}}}`,
		`before-first-apply Update: {"f:data":{".":{},"f:k":{},"f:l":{}}}`,
	}
	if !slices.Equal(r.owners(), want) {
		t.Errorf("got %q, want %q", r.owners(), want)
	}
}

// TestReset: an empty entry takes all managers away; leaving them out takes none.
func TestReset(t *testing.T) {
	r := newRig(t, "deployments.apps")
	r.must(r.apply("one", deployment))
	r.update("two", func(obj kinds.Object) { obj.SetManagedFields(nil) })
	if len(r.owners()) != 1 {
		t.Errorf("left out: %q", r.owners())
	}
	r.update("two", func(obj kinds.Object) { obj.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) })
	if len(r.owners()) != 0 {
		t.Errorf("reset: %q", r.owners())
	}
}

// TestTimes: entries have the cluster's time of their last change, and applying the same
// again changes nothing at all.
func TestTimes(t *testing.T) {
	r := newRig(t, "deployments.apps")
	first := r.now
	r.must(r.apply("one", deployment))
	before := r.obj
	r.must(r.apply("one", deployment))
	if got := r.obj.GetManagedFields()[0].Time; !got.Time.Equal(first) {
		t.Errorf("applied again, the time is %v, want %v", got, first)
	}
	if len(r.obj.GetManagedFields()) != 1 || before.GetManagedFields()[0].String() != r.obj.GetManagedFields()[0].String() {
		t.Errorf("applied again: %v", r.obj.GetManagedFields())
	}
	r.must(r.apply("two", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {paused: true}\n"))
	times := map[string]time.Time{}
	for _, e := range r.obj.GetManagedFields() {
		times[e.Manager] = e.Time.Time
	}
	if !times["one"].Equal(first) || !times["two"].Equal(first.Add(2*time.Minute)) {
		t.Errorf("times are %v", times)
	}
}

// TestVersions: one object is applied in two versions of its kind.
func TestVersions(t *testing.T) {
	r := newRig(t, "deployments.apps")
	r.must(r.apply("one", deployment))
	older, ok := kinds.ByGVK(schema.GroupVersionKind{Group: "apps", Version: "v1beta2", Kind: "Deployment"})
	if !ok {
		t.Fatal("no apps/v1beta2")
	}
	r.kind = older
	r.must(r.apply("two", "apiVersion: apps/v1beta2\nkind: Deployment\nmetadata: {name: web}\nspec: {minReadySeconds: 4}\n"))
	if _, ok := r.obj.(*appsv1.Deployment); !ok {
		t.Fatalf("stored as %T", r.obj)
	}
	r.want([]string{"spec", "minReadySeconds"}, "4")
	r.want([]string{"spec", "replicas"}, "3")
}

// TestTwoGroups: an Event is stored in the core group's form, and applied in either.
func TestTwoGroups(t *testing.T) {
	r := newRig(t, "events.events.k8s.io")
	r.must(r.apply("one", "apiVersion: events.k8s.io/v1\nkind: Event\nmetadata: {name: e, namespace: d}\nnote: hello\nreason: Because\n"))
	if _, ok := r.obj.(*corev1.Event); !ok {
		t.Fatalf("stored as %T", r.obj)
	}
	r.want([]string{"message"}, `"hello"`)
	r.must(r.apply("one", "apiVersion: events.k8s.io/v1\nkind: Event\nmetadata: {name: e, namespace: d}\nnote: bye\n"))
	r.want([]string{"message"}, `"bye"`)
	r.want([]string{"reason"}, "null")
}

// TestRefusals are upstream's words.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, manifest string
		code           int32
		want           string
	}{
		{"no YAML", "a: b: c", 400, "error decoding patch: error converting YAML to JSON: yaml: mapping values are not allowed in this context"},
		{"a list", "[]", 400, "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}"},
		{"another kind", "apiVersion: v1\nkind: Pod\n", 400, "invalid object type: /v1, Kind=Pod"},
		{"managedFields", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, managedFields: [{manager: x}]}\n", 400, "metadata.managedFields must be nil"},
		{"an unknown field", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\nspec: {nope: 1}\n", 500, "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec.nope: field not declared in schema"},
		{"one key twice", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: default}\nspec: {template: {spec: {containers: [{name: a}, {name: a}]}}}\n", 500, `failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name="a"]`},
	} {
		r := newRig(t, "deployments.apps")
		err := r.apply("one", c.manifest)
		if got := statusOf(t, err); got.Code != c.code || strings.TrimSpace(got.Message) != c.want {
			t.Errorf("%s: %d %s, want %d %s", c.name, got.Code, got.Message, c.code, c.want)
		}
	}
}

// TestTwice: a key that is there twice is judged by fieldValidation.
func TestTwice(t *testing.T) {
	r := newRig(t, "configmaps")
	patch := fieldmanager.Patch{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: d}\ndata:\n  k: \"1\"\n  k: \"2\"\n")}
	const duplicateKey = "error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"k\" already set in map"
	for mode, want := range map[string]string{"Ignore": "", "Warn": duplicateKey, "": duplicateKey, "Strict": "error strict decoding patch: " + duplicateKey} {
		patch.FieldValidation = mode
		_, warnings, err := r.fields.Apply(fieldmanager.Write{Kind: r.kind, Manager: "m"}, nil, patch)
		got := strings.Join(warnings, "")
		if err != nil {
			got = err.Error()
		}
		if got != want || (mode == "Strict") != (err != nil) {
			t.Errorf("%s: %v, %q", mode, err, warnings)
		}
	}
}

// TestCustom: a custom resource merges by its schema.
func TestCustom(t *testing.T) {
	kind := kinds.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "stable.example.com", Version: "v1", Kind: "CronTab"},
		Resource:         "crontabs", Namespaced: true, StorageVersion: "v1", Custom: true,
	}
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	root := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"replicas": {Type: "integer"},
			"jobs": {
				Type: "array", XListType: new("map"), XListMapKeys: []string{"name"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Required: []string{"name"},
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "at": text, "why": text},
				}},
			},
		}},
	}}
	crd := &apiextensionsv1.CustomResourceDefinition{
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, Plural: kind.Resource},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
			}},
		},
	}
	r := &rig{T: t, kind: kind, now: time.Unix(1_700_000_000, 0), fields: fieldmanager.New(
		func(schema.GroupResource) *apiextensionsv1.CustomResourceDefinition { return crd })}
	const head = "apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: c, namespace: default}\n"
	r.must(r.apply("one", head+"spec: {replicas: 2, jobs: [{name: a, at: noon}]}\n"))
	r.must(r.apply("two", head+"spec: {jobs: [{name: a, why: fun}, {name: b}]}\n"))
	r.want([]string{"spec"}, `{"jobs":[{"at":"noon","name":"a","why":"fun"},{"name":"b"}],"replicas":2}`)
	if err := r.apply("two", head+"spec: {replicas: 3}\n"); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := r.apply("two", head+"spec: {nope: 3}\n"); err == nil || !strings.Contains(err.Error(), ".spec.nope: field not declared in schema") {
		t.Errorf("got %v", err)
	}
	// A definition that changes is noticed.
	changed := crd.DeepCopy()
	changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["nope"] = text
	crd = changed
	r.must(r.apply("two", head+"spec: {nope: \"3\"}\n"))
}
