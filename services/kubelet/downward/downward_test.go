package downward_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/downward"
)

func TestField(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "u", Labels: map[string]string{"b": "2", "a": "1"}, Annotations: map[string]string{"a/b": "two\nlines"},
	}}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = "n1", "robot"
	at := downward.Addresses{Pod: "10.0.0.1", Host: "127.0.0.1"}
	for path, want := range map[string]string{
		"metadata.name": "web", "metadata.namespace": "shop", "metadata.uid": "u", "metadata.labels['a']": "1", "metadata.labels['none']": "",
		"metadata.annotations['a/b']": "two\nlines", "metadata.labels": "a=\"1\"\nb=\"2\"", "metadata.annotations": `a/b="two\nlines"`,
		"spec.nodeName": "n1", "spec.serviceAccountName": "robot", "status.podIP": "10.0.0.1", "status.hostIP": "127.0.0.1",
	} {
		if got, err := downward.Field(pod, path, at); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"status.phase", "spec.nodeName['x']", "metadata.labels['x", ""} {
		if got, err := downward.Field(pod, path, at); err == nil {
			t.Errorf("%s: %q, want an error", path, got)
		}
	}
}

func TestResource(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: list("2", "1Gi")}}},
		Containers:     []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{Requests: list("250m", "64Mi"), Limits: list("1500m", "100M")}}},
	}}
	for _, row := range []struct{ container, resource, divisor, want string }{
		{"", "requests.cpu", "0", "1"},
		{"", "requests.cpu", "1m", "250"},
		{"", "limits.cpu", "1", "2"},
		{"web", "limits.memory", "1Mi", "96"},
		{"web", "requests.memory", "0", "67108864"},
		{"init", "requests.cpu", "0", "2"},
		{"init", "limits.cpu", "0", "4"},
		{"init", "limits.memory", "1Gi", "8"},
		{"", "requests.ephemeral-storage", "0", "0"},
		{"none", "limits.cpu", "0", ""},
		{"", "limits.pods", "0", ""},
		{"", "cpu", "0", ""},
	} {
		selector := &corev1.ResourceFieldSelector{ContainerName: row.container, Resource: row.resource, Divisor: resource.MustParse(row.divisor)}
		got, err := downward.Resource(pod, &pod.Spec.Containers[0], selector, list("4", "8Gi"))
		if got != row.want || (err != nil) != (row.want == "") {
			t.Errorf("%s of %q by %s: %q %v, want %q", row.resource, row.container, row.divisor, got, err, row.want)
		}
	}
}
