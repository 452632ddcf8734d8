package customers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podfall/podfall/podfalltest"
)

// TestLikeEnvtest is a test as written with envtest: a controller-runtime client, objects, and
// conditions to wait for. Here pods run, and deletes complete.
func TestLikeEnvtest(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Nodes(2))
	k := newReader(t, c.Config())
	web := deployment("web", 2)
	must(t, k.Create(t.Context(), web))

	eventually(t, "two pods are ready", func() bool {
		must(t, k.Get(t.Context(), client.ObjectKeyFromObject(web), web))
		return web.Status.ReadyReplicas == 2
	})
	var pods corev1.PodList
	must(t, k.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"}))
	if len(pods.Items) != 2 {
		t.Fatalf("there are %d pods, want 2", len(pods.Items))
	}

	victim := &pods.Items[0]
	must(t, k.Delete(t.Context(), victim))
	marked := &corev1.Pod{}
	switch err := k.Get(t.Context(), client.ObjectKeyFromObject(victim), marked); {
	case apierrors.IsNotFound(err): // it may be gone already
	case err != nil:
		t.Fatal(err)
	case marked.UID == victim.UID && marked.DeletionTimestamp.IsZero():
		t.Error("a pod was deleted and has no deletionTimestamp")
	}
	awaitGone(t, k, victim)
	eventually(t, "another took its place", func() bool {
		must(t, k.List(t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"}))
		return len(pods.Items) == 2
	})

	must(t, k.Delete(t.Context(), web, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	awaitGone(t, k, web)
	must(t, k.List(t.Context(), &pods, client.InNamespace("default")))
	if len(pods.Items) != 0 {
		t.Errorf("the deployment was deleted in the foreground, and left %d pods", len(pods.Items))
	}
}

// TestUnreachableNode tests what no other test environment has: an unreachable node. The pod stays
// in Terminating until the node is back; a forced delete removes the object at once.
func TestUnreachableNode(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Nodes(1))
	k := newReader(t, c.Config())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: quickScript()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
	must(t, k.Create(t.Context(), pod))
	awaitRunning(t, k, pod)

	c.Cut("node-1")
	must(t, k.Delete(t.Context(), pod, client.GracePeriodSeconds(1)))
	must(t, k.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if pod.DeletionTimestamp.IsZero() {
		t.Error("the pod has no deletionTimestamp")
	}
	c.Heal("node-1")
	awaitGone(t, k, pod)
}

func awaitRunning(t *testing.T, k client.Client, pod *corev1.Pod) {
	t.Helper()
	eventually(t, pod.Name+" runs", func() bool {
		must(t, k.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Phase == corev1.PodRunning
	})
}

func quickScript() map[string]string {
	return map[string]string{"script.podfall.io/main": "on TERM exits 0 after 50ms"}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: quickScript()},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			},
		},
	}
}
