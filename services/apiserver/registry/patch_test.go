package registry_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/apiserver/registry"
)

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		how   types.PatchType
		patch string
		want  func(*corev1.Pod) bool
	}{
		{"merge adds a label", types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`, func(p *corev1.Pod) bool { return p.Labels["a"] == "b" }},
		{"merge removes", types.MergePatchType, `{"spec":{"schedulerName":null}}`, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == "" }},
		{"merge replaces lists", types.MergePatchType, `{"spec":{"containers":[{"name":"b","image":"c"}]}}`, func(p *corev1.Pod) bool {
			return len(p.Spec.Containers) == 1 && p.Spec.Containers[0].Name == "b"
		}},
		{"strategic merges lists by name", types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"b","image":"c"}]}}`, func(p *corev1.Pod) bool {
			return len(p.Spec.Containers) == 2
		}},
		{"strategic changes one of a list", types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"app","image":"c"}]}}`, func(p *corev1.Pod) bool {
			return len(p.Spec.Containers) == 1 && p.Spec.Containers[0].Image == "c" && p.Spec.Containers[0].ImagePullPolicy == "IfNotPresent"
		}},
		{"strategic deletes from a list", types.StrategicMergePatchType, `{"spec":{"tolerations":[],"containers":[{"name":"app","$patch":"delete"}]}}`, func(p *corev1.Pod) bool {
			return len(p.Spec.Containers) == 0
		}},
		{"strategic sets conditions", types.StrategicMergePatchType, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, func(p *corev1.Pod) bool {
			return len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Status == "True"
		}},
		{"strategic deletes a finalizer", types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/x"]}}`, func(p *corev1.Pod) bool {
			return len(p.Finalizers) == 0
		}},
		{"operations", types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"web"},{"op":"replace","path":"/spec/containers/0/image","value":"c"}]`, func(p *corev1.Pod) bool {
			return p.Spec.Containers[0].Image == "c"
		}},
		{"operations take a finalizer", types.JSONPatchType, `[{"op":"remove","path":"/metadata/finalizers/0"}]`, func(p *corev1.Pod) bool { return len(p.Finalizers) == 0 }},
		{"nothing", types.MergePatchType, `{}`, func(*corev1.Pod) bool { return true }},
	}
	for _, tt := range tests {
		old := storedPod(t, `/metadata/finalizers = ["example.com/x"]`)
		before := document(t, old)
		obj, warnings, err := registry.ApplyPatch(kindOf(t, "pods"), old, tt.how, []byte(tt.patch), strict)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %q, %v", tt.name, warnings, err)
			continue
		}
		if pod := asType[*corev1.Pod](t, obj); !tt.want(pod) || pod.UID != "uid-1" || pod.ResourceVersion != "7" || pod.Kind != "Pod" {
			t.Errorf("%s: %s", tt.name, document(t, pod))
		}
		if document(t, old) != before {
			t.Errorf("%s: the stored object changed", tt.name)
		}
	}
}

func TestApplyPatchRefuses(t *testing.T) {
	t.Parallel()
	many := "[" + strings.Repeat(`{"op":"test","path":"/metadata/name","value":"web"},`, 10000) + `{"op":"test","path":"/metadata/name","value":"web"}]`
	var bomb strings.Builder
	bomb.WriteString(`[{"op":"add","path":"/metadata/annotations","value":{"a":"0123456789"}}`)
	for i := range 40 {
		fmt.Fprintf(&bomb, `,{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/b%d"}`, i)
	}
	bomb.WriteString("]")
	tests := []struct {
		name  string
		how   types.PatchType
		patch string
		code  int
		want  string
	}{
		{"no JSON", types.MergePatchType, `{`, 400, "error decoding patch: unexpected end of JSON input"},
		{"no JSON", types.StrategicMergePatchType, `{`, 400, "unexpected end of JSON input"},
		{"no JSON", types.JSONPatchType, `{`, 400, "error decoding patch"},
		{"no list", types.JSONPatchType, `{"a":1}`, 400, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"},
		{"no object", types.MergePatchType, `[]`, 400, "error decoding patch: json: cannot unmarshal array into Go value"},
		{"a test fails", types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"other"}]`, 422, "the server rejected our request due to an error in our request"},
		{"nothing there", types.JSONPatchType, `[{"op":"remove","path":"/spec/nope"}]`, 422, "the server rejected our request due to an error in our request"},
		{"an unknown operation", types.JSONPatchType, `[{"op":"jump","path":"/spec"}]`, 422, "the server rejected our request due to an error in our request"},
		{"everything by nothing", types.JSONPatchType, `[{"op":"replace","path":""}]`, 422, "the server rejected our request due to an error in our request"},
		{"too many operations", types.JSONPatchType, many, 413, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"T11 a copy bomb", types.JSONPatchType, bomb.String(), 422, "the server rejected our request due to an error in our request"},
		{"T11 too deep", types.MergePatchType, strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), 400, "nested more than 256"},
		{"too large", types.MergePatchType, strings.Repeat(" ", registry.MaxBody+1), 413, "limit is 3145728"},
		{"another type", types.ApplyPatchType, `{}`, 415, "accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"},
		{"an unknown field", types.MergePatchType, `{"spec":{"x":1}}`, 422, `strict decoding error: unknown field "spec.x"`},
		{"an unknown field", types.StrategicMergePatchType, `{"spec":{"x":1}}`, 422, `strict decoding error: unknown field "spec.x"`},
		{"an unknown field", types.JSONPatchType, `[{"op":"add","path":"/spec/x","value":1}]`, 422, `strict decoding error: unknown field "spec.x"`},
		{"an unknown key of an operation", types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{},"x":1}]`, 422, `json patch unknown field "[0].x"`},
		{"a duplicate", types.StrategicMergePatchType, `{"metadata":{"labels":{"a":"1","a":"2"}}}`, 422, `duplicate field "metadata.labels.a"`},
		{"a wrong type", types.MergePatchType, `{"spec":{"terminationGracePeriodSeconds":"x"}}`, 422, "cannot unmarshal string"},
		{"a wrong type", types.StrategicMergePatchType, `{"spec":{"terminationGracePeriodSeconds":"x"}}`, 422, "patch: Invalid value"},
		{"another kind", types.MergePatchType, `{"kind":"Node"}`, 422, "unable to decode /v1, Kind=Node into /v1, Kind=Pod"},
		{"no merge key", types.StrategicMergePatchType, `{"spec":{"containers":[{"image":"x"}]}}`, 500, "does not contain declared merge key: name"},
	}
	for _, tt := range tests {
		_, _, err := registry.ApplyPatch(kindOf(t, "pods"), storedPod(t), tt.how, []byte(tt.patch), strict)
		if codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %d %v\nwant %d %s", tt.how, tt.name, codeOf(err), err, tt.code, tt.want)
		}
	}
}

func TestApplyPatchWarns(t *testing.T) {
	t.Parallel()
	for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		for validation, want := range map[string]string{ignore: "", warn: `unknown field "spec.x"`, "": `unknown field "spec.x"`} {
			obj, warnings, err := registry.ApplyPatch(kindOf(t, "pods"), storedPod(t), kind,
				[]byte(`{"spec":{"x":1},"metadata":{"labels":{"a":"b"}}}`), validation)
			if err != nil || strings.Join(warnings, ";") != want || obj.GetLabels()["a"] != "b" {
				t.Errorf("%s %q: %q, %v", kind, validation, warnings, err)
			}
		}
	}
}

// TestApplyPatchInAnotherVersion: a patch is written against the version it is sent to.
func TestApplyPatchInAnotherVersion(t *testing.T) {
	t.Parallel()
	old := stored(t, "deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"b"},"spec":{"selector":{"matchLabels":{"app":"x"}},`+
		`"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	obj, _, err := registry.ApplyPatch(kindOf(t, "deployments.v1beta1.apps"), old, types.MergePatchType,
		[]byte(`{"apiVersion":"apps/v1beta1","spec":{"replicas":5}}`), strict)
	if err != nil || !strings.Contains(document(t, obj), `"replicas":5`) || !strings.Contains(document(t, obj), `"apiVersion":"apps/v1"`) {
		t.Errorf("%v, %s", err, document(t, obj))
	}
}

// FuzzApplyPatch: no patch makes the registry panic or change what is stored, and every
// refusal is the sender's fault.
func FuzzApplyPatch(f *testing.F) {
	patchTypes := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}
	old := storedPod(f)
	before := document(f, old)
	f.Fuzz(func(t *testing.T, which uint8, patch []byte) {
		kind := kindOf(t, "pods")
		obj, _, err := registry.ApplyPatch(kind, old, patchTypes[int(which)%3], patch, warn)
		if document(t, old) != before {
			t.Fatal("the stored object changed")
		}
		if err != nil {
			if code := codeOf(err); code != 400 && code != 413 && code != 422 && code != 500 {
				t.Errorf("%d %v", code, err)
			}
			return
		}
		_ = registry.BeforeUpdate(registry.For(kind, latest(t)), kind, obj, old, "")
	})
}
