package podworker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEnvironment(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "u", Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"a/b": "y"},
	}}
	pod.Spec.NodeName = "n1"
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	spec := &corev1.Container{Env: []corev1.EnvVar{
		{Name: "PLAIN", Value: "v"},
		{Name: "BOTH", Value: "$(PLAIN)-$(LATER)-$$(PLAIN)-$PLAIN-$(PLAIN"},
		{Name: "LATER", Value: "w"},
		{Name: "NAME", ValueFrom: field("metadata.name")},
		{Name: "IP", ValueFrom: field("status.podIP")},
		{Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
		{Name: "NOTE", ValueFrom: field("metadata.annotations['a/b']")},
		{Name: "NODE", ValueFrom: field("spec.nodeName")},
		{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}},
	}}
	want := map[string]string{
		"PLAIN": "v", "BOTH": "v-$(LATER)-$(PLAIN)-$PLAIN-$(PLAIN", "LATER": "w", "NAME": "web", "IP": "10.0.0.1",
		"LABEL": "x", "NOTE": "y", "NODE": "n1",
	}
	got, err := environment(pod, spec, "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--name=web", "$(NOBODY)"}, expandAll([]string{"--name=$(NAME)", "$(NOBODY)"}, got)); diff != "" {
		t.Errorf("the command (-want +got):\n%s", diff)
	}
	spec.Env = []corev1.EnvVar{{Name: "BAD", ValueFrom: field("status.phase")}}
	if _, err := environment(pod, spec, ""); err == nil || err.Error() != `env[0].valueFrom.fieldRef: fieldPath "status.phase" is not one that an environment can have` {
		t.Errorf("a field that there is not: %v", err)
	}
}
