package admission_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
)

// TestRuntimeClass has pods of several classes, and what admission makes of them: parts of the spec, or
// the 403 that the pod gets.
func TestRuntimeClass(t *testing.T) {
	memory := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
	}
	gpu := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}
	known := classes{runtime: []*nodev1.RuntimeClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "process"}, Handler: "process"},
		{ObjectMeta: metav1.ObjectMeta{Name: "heavy"}, Overhead: &nodev1.Overhead{PodFixed: memory("100Mi")}},
		{ObjectMeta: metav1.ObjectMeta{Name: "placed"}, Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"vm": "yes"}, Tolerations: []corev1.Toleration{gpu},
		}},
	}}
	for _, row := range []struct{ name, spec, want string }{
		{"none", `{}`, `{"containers":null}`},
		{"unknown", `{"runtimeClassName":"vm"}`, `pods "p" is forbidden: pod rejected: RuntimeClass "vm" not found`},
		{"empty", `{"runtimeClassName":""}`, `pods "p" is forbidden: pod rejected: RuntimeClass "" not found`},
		{"a handler only", `{"runtimeClassName":"process"}`, `{"containers":null,"runtimeClassName":"process"}`},
		{"overhead", `{"runtimeClassName":"heavy"}`, `{"containers":null,"runtimeClassName":"heavy","overhead":{"memory":"100Mi"}}`},
		{"the same overhead", `{"runtimeClassName":"heavy","overhead":{"memory":"102400Ki"}}`, `{"containers":null,"runtimeClassName":"heavy","overhead":{"memory":"100Mi"}}`},
		{
			"another overhead", `{"runtimeClassName":"heavy","overhead":{"memory":"1Mi"}}`,
			`pods "p" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead`,
		},
		{
			"overhead of no class", `{"overhead":{"memory":"1Mi"}}`,
			`pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`,
		},
		{
			"overhead of a class without", `{"runtimeClassName":"process","overhead":{"memory":"1Mi"}}`,
			`pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`,
		},
		{
			"scheduling", `{"runtimeClassName":"placed","nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"gpu","operator":"Equal","value":"a"},{"key":"b","operator":"Exists"}]}`,
			`{"containers":null,"nodeSelector":{"disk":"ssd","vm":"yes"},"runtimeClassName":"placed","tolerations":[{"key":"b","operator":"Exists"},{"key":"gpu","operator":"Exists"}]}`,
		},
		{
			"scheduling that the pod has", `{"runtimeClassName":"placed","nodeSelector":{"vm":"yes"},"tolerations":[{"operator":"Exists"}]}`,
			`{"containers":null,"nodeSelector":{"vm":"yes"},"runtimeClassName":"placed","tolerations":[{"operator":"Exists"}]}`,
		},
		{
			"scheduling elsewhere", `{"runtimeClassName":"placed","nodeSelector":{"vm":"no"}}`,
			`pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no`,
		},
	} {
		pod := &corev1.Pod{}
		if err := json.Unmarshal([]byte(row.spec), &pod.Spec); err != nil {
			t.Fatal(err)
		}
		err := admission.SetDefaults([]string{admission.RuntimeClass}, attributes(t, proto.VerbCreate, "pods", "p"), pod, nil, known)
		got := text(err)
		if err == nil {
			data, _ := json.Marshal(pod.Spec)
			got = string(data)
		}
		want := row.want
		if want[0] == '{' { // in the order of the fields
			spec := &corev1.PodSpec{}
			if err := json.Unmarshal([]byte(want), spec); err != nil {
				t.Fatal(err)
			}
			data, _ := json.Marshal(spec)
			want = string(data)
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, want)
		}
		stored := &corev1.Pod{}
		if err := admission.SetDefaults([]string{admission.RuntimeClass}, attributes(t, proto.VerbUpdate, "pods", "p"), stored, nil, known); err != nil {
			t.Errorf("%s: an update: %v", row.name, err)
		}
	}
}
