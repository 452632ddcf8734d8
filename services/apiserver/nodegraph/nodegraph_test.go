package nodegraph_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/services/apiserver/nodegraph"
	"github.com/podfall/podfall/services/apiserver/store"
)

func record(name, node, secret string, change ...func(*corev1.Pod)) *store.Record {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		NodeName: node, ImagePullSecrets: []corev1.LocalObjectReference{{Name: secret}},
	}}
	for _, with := range change {
		with(pod)
	}
	return &store.Record{Key: store.Key{Resource: "pods", Namespace: "default", Name: name}, Object: pod}
}

func TestGraph(t *testing.T) {
	t.Parallel()
	var g nodegraph.Graph
	refers := func(node, namespace, name string) bool { return g.Refers(node, podrefs.Secrets, namespace, name) }
	unbound, bound := record("a", "", "s"), record("a", "n1", "s")
	g.OnCommit([]store.Event{{Type: store.Added, Record: unbound}})
	if refers("n1", "default", "s") || refers("", "default", "s") {
		t.Error("a pod without a node lets somebody read")
	}
	g.OnCommit([]store.Event{{Type: store.Modified, Previous: unbound, Record: bound}})
	if !refers("n1", "default", "s") || refers("n2", "default", "s") || refers("n1", "other", "s") || refers("n1", "default", "t") {
		t.Error("a bound pod lets the wrong one read")
	}
	second := record("b", "n1", "s")
	g.OnCommit([]store.Event{{Type: store.Added, Record: second}, {Type: store.Modified, Previous: bound, Record: bound}})
	g.OnCommit([]store.Event{{Type: store.Deleted, Previous: bound, Record: bound}})
	if !refers("n1", "default", "s") {
		t.Error("with one of two pods gone, the other's node may not read")
	}
	g.OnCommit([]store.Event{{Type: store.Deleted, Previous: second, Record: second}})
	if refers("n1", "default", "s") {
		t.Error("a node may read what its last pod took along")
	}
	mirror := record("m", "n1", "stolen", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	g.OnCommit([]store.Event{{Type: store.Added, Record: mirror}})
	if refers("n1", "default", "stolen") {
		t.Error("T7: a mirror pod, which the node makes, lets it read")
	}
	ephemeral := record("a", "n1", "s", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}},
		}}}
	})
	g.OnCommit([]store.Event{{Type: store.Added, Record: bound}, {Type: store.Modified, Previous: bound, Record: ephemeral}})
	if !refers("n1", "default", "late") || !refers("n1", "default", "s") {
		t.Error("an ephemeral container's secret may not be read")
	}
	if (*nodegraph.Graph)(nil).Refers("n1", podrefs.Secrets, "default", "s") {
		t.Error("nil knows something")
	}
}
