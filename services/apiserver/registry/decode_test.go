package registry_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

const (
	asJSON  = "application/json"
	asProto = "application/vnd.kubernetes.protobuf"
	ignore  = metav1.FieldValidationIgnore
	warn    = metav1.FieldValidationWarn
	strict  = metav1.FieldValidationStrict
)

func TestDecodeBodyRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)
	tests := []struct {
		name, contentType, body string
		code                    int
		want                    string
	}{
		{
			"unknown field", asJSON, `{"apiVersion":"v1","kind":"Pod","spec":{"containerz":[]}}`, 400,
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containerz"`,
		},
		{
			"duplicate field", asJSON, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"}}`, 400,
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: duplicate field "metadata.name"`,
		},
		{
			"unknown and duplicate fields in YAML", "application/yaml", "apiVersion: v1\nkind: Pod\nspec: {x: 1}\nmetadata:\n  name: a\n  name: b\n", 400,
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: yaml: unmarshal errors:` + "\n" +
				`  line 6: key "name" already set in map, unknown field "spec.x"`,
		},
		{
			"many aliases of a long text", "application/yaml",
			"a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]", 413,
			"Request entity too large: YAML with its aliases written out is too large: want at most 3145728 bytes",
		},
		{
			"wrong case", asJSON, `{"apiVersion":"v1","kind":"Pod","Spec":{}}`, 400,
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "Spec"`,
		},
		{
			"wrong type", asJSON, `{"apiVersion":"v1","kind":"Pod","spec":{"terminationGracePeriodSeconds":"30"}}`, 400,
			`Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field ` +
				`PodSpec.spec.terminationGracePeriodSeconds of type int64`,
		},
		{
			"another kind", asJSON, `{"apiVersion":"v1","kind":"Node"}`, 400,
			`Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion`,
		},
		{
			"an unknown kind", asJSON, `{"apiVersion":"v1","kind":"Pud"}`, 400,
			`Pud in version "v1" cannot be handled as a Pod: no kind "Pud" is registered for version "v1" in scheme "podfall"`,
		},
		{
			"an unknown version", asJSON, `{"apiVersion":"v7","kind":"Pod"}`, 400,
			`Pod in version "v7" cannot be handled as a Pod: no kind "Pod" is registered for version "v7" in scheme "podfall"`,
		},
		{
			"a list", asJSON, `{"apiVersion":"v1","kind":"PodList","items":[]}`, 400,
			`PodList in version "v1" cannot be handled as a Pod: converting (v1.PodList) to (core.Pod): unknown conversion`,
		},
		{"nothing", asJSON, "", 400, "the object provided is unrecognized (must be of type Pod)"},
		{"no JSON", asJSON, "\x00\x01", 400, "(0001)"},
		{"half an object", asJSON, `{"apiVersion":"v1","kind":"Pod","spec":`, 400, `({"apiVersion":"v1","kind":"Pod ...)`},
		{"too deep", asJSON, deep, 400, "nested more than 256 levels deep"},
		{"too large", asJSON, strings.Repeat(" ", registry.MaxBody+1), 413, "limit is 3145728"},
		{
			"another content type", "application/xml", "<Pod/>", 415, "the body of the request was in an unknown format - " +
				"accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		},
		{"no protobuf", asProto, "Pod", 400, "the object provided is unrecognized (must be of type Pod)"},
		{"damaged protobuf", asProto, "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x0a\xff", 400, `Pod in version "v1" cannot be handled as a Pod`},
	}
	for _, tt := range tests {
		_, _, err := registry.DecodeBody(kindOf(t, "pods"), tt.contentType, []byte(tt.body), strict)
		if codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %d %v\nwant %d %s", tt.name, codeOf(err), err, tt.code, tt.want)
		}
	}
}

func TestDecodeBodyWarns(t *testing.T) {
	t.Parallel()
	body := []byte(`{"kind":"Pod","apiVersion":"v1","extra":1,"metadata":{"name":"a"},"spec":{"x":1}}`)
	for validation, want := range map[string]string{
		ignore: "", warn: `unknown field "extra"; unknown field "spec.x"`, "": `unknown field "extra"; unknown field "spec.x"`,
	} {
		obj, warnings, err := registry.DecodeBody(kindOf(t, "pods"), asJSON, body, validation)
		if err != nil || obj.GetName() != "a" || strings.Join(warnings, "; ") != want {
			t.Errorf("%q: %v, %q, %v", validation, obj, warnings, err)
		}
	}
}

func TestDecodeBodyFillsInTheKind(t *testing.T) {
	t.Parallel()
	obj, _, err := registry.DecodeBody(kindOf(t, "pods"), "application/json; charset=utf-8", []byte(`{"metadata":{"name":"a"}}`), strict)
	if err != nil {
		t.Fatal(err)
	}
	if pod, ok := obj.(*corev1.Pod); !ok || pod.APIVersion != "v1" || pod.Kind != "Pod" {
		t.Errorf("got %v", obj)
	}
}

func TestDecodeBodyProtobuf(t *testing.T) {
	t.Parallel()
	sent := storedPod(t)
	sent.ResourceVersion = ""
	data, err := kinds.Encode(sent)
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := registry.DecodeBody(kindOf(t, "pods"), asProto, data, strict)
	if err != nil || document(t, obj) != document(t, sent) {
		t.Errorf("%v\n%s\n%s", err, document(t, obj), document(t, sent))
	}
}

// TestDecodeBodyPrefers: any served version is read into the one that is stored.
func TestDecodeBodyPrefers(t *testing.T) {
	t.Parallel()
	obj, _, err := registry.DecodeBody(kindOf(t, "deployments.apps"), asJSON,
		[]byte(`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":3,"template":{}}}`), strict)
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := obj.(*appsv1.Deployment); !ok || *d.Spec.Replicas != 3 || d.APIVersion != "apps/v1" {
		t.Errorf("got %v", obj)
	}
	obj, warnings, err := registry.DecodeBody(kindOf(t, "horizontalpodautoscalers.v1.autoscaling"), asJSON,
		[]byte(`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":4,"targetCPUUtilizationPercentage":80}}`), strict)
	if err != nil {
		t.Fatal(err)
	}
	if hpa, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler); !ok || hpa.Spec.MaxReplicas != 4 {
		t.Errorf("got %v", obj)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings %q", warnings)
	}
	_, warnings, err = registry.DecodeBody(kindOf(t, "ingresses.v1beta1.networking.k8s.io"), asJSON,
		[]byte(`{"apiVersion":"networking.k8s.io/v1beta1","kind":"Ingress","spec":{"backend":{"serviceName":"web"}}}`), strict)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "spec.backend") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	_, _, err = registry.DecodeBody(kindOf(t, "deployments.apps"), asJSON,
		[]byte(`{"apiVersion":"extensions/v1beta1","kind":"Deployment"}`), strict)
	const want = "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)"
	if codeOf(err) != http.StatusBadRequest || err.Error() != want {
		t.Errorf("another group: %v", err)
	}
}

func TestMatchRequest(t *testing.T) {
	t.Parallel()
	pods, nodes := kindOf(t, "pods"), kindOf(t, "nodes")
	pod := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace}}
	}
	filled := pod("")
	if err := registry.MatchRequest(pods, filled, "x", ""); err != nil || filled.Namespace != "x" {
		t.Errorf("no namespace: %q, %v", filled.Namespace, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "x"}}
	if err := registry.MatchRequest(nodes, node, "", "a"); err != nil || node.Namespace != "" {
		t.Errorf("node: %q, %v", node.Namespace, err)
	}
	err := registry.MatchRequest(pods, pod("y"), "x", "")
	if codeOf(err) != 400 || err.Error() != "the namespace of the provided object does not match the namespace sent on the request" {
		t.Error(err)
	}
	err = registry.MatchRequest(pods, pod("x"), "x", "b")
	if codeOf(err) != 400 || err.Error() != "the name of the object (a) does not match the name on the URL (b)" {
		t.Error(err)
	}
}

// FuzzDecodeBody: no body makes the decoder panic, every refusal is the sender's fault, and
// what was read can be prepared, judged and written.
func FuzzDecodeBody(f *testing.F) {
	data, err := kinds.Encode(storedPod(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("pods", asJSON, []byte(podJSON))
	f.Add("pods", asProto, data)
	f.Add("pods", asProto, data[:len(data)/2])
	f.Add("pods", asJSON, bytes.Repeat([]byte("["), 20000))
	f.Fuzz(func(t *testing.T, alias, contentType string, body []byte) {
		kind, ok := kinds.ByAlias(alias)
		if !ok {
			return
		}
		obj, _, err := registry.DecodeBody(kind, contentType, body, strict)
		if err != nil {
			if code := codeOf(err); code != 400 && code != 413 && code != 415 {
				t.Errorf("%d %v", code, err)
			}
			return
		}
		s := registry.For(kind, latest(t))
		obj.SetResourceVersion("")
		if err := registry.BeforeCreate(s, kind, obj, noon, "uid-1"); err != nil {
			return
		}
		s.Warnings(obj)
		s.Fields(obj)
		if _, err := kinds.Encode(obj); err != nil {
			t.Error(err)
		}
	})
}
