package history

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzTemplate: a template that a revision has is had by the revision that is made of it, under
// the same name each time; a revision is equal to itself however it is written; one that
// cannot be read is named.
func FuzzTemplate(f *testing.F) {
	f.Fuzz(func(t *testing.T, data, other []byte) {
		stored := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1"}, Data: runtime.RawExtension{Raw: data}}
		second := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: other}}
		if !Equal(stored, stored.DeepCopy()) || Equal(stored, second) != Equal(second, stored) {
			t.Errorf("%q and %q: %v, %v", data, other, Equal(stored, second), Equal(second, stored))
		}
		template, err := Template(stored)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "ControllerRevision default/web-1: ") {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		by := owner("a")
		by.Template = template
		made, err := New(by, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Template(made)
		if err != nil || !equality.Semantic.DeepEqual(normal(t, again), normal(t, template)) {
			t.Errorf("%q is %+v, kept as %s and read as %+v (%v)", data, template, made.Data.Raw, again, err)
		}
		by.Template = again
		if same, err := New(by, 2); err != nil || same.Name != made.Name || !Equal(same, made) {
			t.Errorf("%s has the name %s, and kept again %s has %s (%v)", made.Data.Raw, made.Name, same.Data.Raw, same.Name, err)
		}
	})
}

// normal is a template as it is stored: what is empty and what is not there are the same.
func normal(t *testing.T, template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t.Helper()
	data, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	read := &corev1.PodTemplateSpec{}
	if err := json.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	return read
}
