package guarantees_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// metaFor returns the metadata of an app, the selector of its pods, and their template.
func metaFor(app string) (metav1.ObjectMeta, *metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": app}
	return metav1.ObjectMeta{Name: app, Labels: labels}, &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
}

// createReplicaSet creates a ReplicaSet of two pods.
func (r *seededRun) createReplicaSet(ctx context.Context) error {
	meta, selector, template := metaFor("copies")
	_, err := r.client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	return err
}

// createSets creates a ReplicaSet and a StatefulSet of two pods each.
func (r *seededRun) createSets() {
	if err := r.createReplicaSet(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	meta, selector, template := metaFor("turns")
	_, err := r.client.AppsV1().StatefulSets("default").Create(r.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		r.t.Error(err)
	}
}

// read reads in one way or another, or changes what changes others. Refusals and failures of the
// API are part of the run.
func (r *seededRun) read(i int) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	pods := r.client.CoreV1().Pods("default")
	switch i % 8 {
	case 0:
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, r.rand.IntN(4))
		_, _ = r.client.AppsV1().ReplicaSets("default").Patch(ctx, "copies", "application/merge-patch+json", patch, metav1.PatchOptions{})
	case 1:
		page, err := pods.List(ctx, metav1.ListOptions{Limit: 2})
		for err == nil && page.Continue != "" {
			page, err = pods.List(ctx, metav1.ListOptions{Limit: 2, Continue: page.Continue})
		}
		if err == nil {
			_, _ = pods.List(ctx, metav1.ListOptions{ResourceVersion: page.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		}
	case 2:
		_, _ = pods.List(ctx, metav1.ListOptions{LabelSelector: "app=copies", FieldSelector: "spec.nodeName=node-1"})
		_, _ = pods.Get(ctx, "none", metav1.GetOptions{})
	case 3:
		r.watch(ctx, metav1.ListOptions{ResourceVersion: "1", LabelSelector: "app"})
	case 4:
		r.watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	case 5:
		r.watch(ctx, metav1.ListOptions{})
		r.watch(ctx, metav1.ListOptions{ResourceVersion: "none"})
		r.watch(ctx, metav1.ListOptions{ResourceVersion: "1000000"})
	case 6:
		_, _ = pods.Create(ctx, r.pod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		_ = pods.Delete(ctx, "turns-0", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	case 7:
		// The apiserver alone knows that a binding cannot be read.
		_ = r.client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("none").SubResource("binding").Do(ctx).Error()
		_ = pods.Delete(ctx, fmt.Sprint("turns-", r.rand.IntN(2)), metav1.DeleteOptions{})
	}
}

// deleteOwners deletes owners: a namespace, and a ReplicaSet with its pods, in the foreground and
// in the background, which is created again. It also evicts pods that have a budget.
func (r *seededRun) deleteOwners(i int) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	const shop = "shop"
	switch i {
	case 7:
		_ = r.createBudget(ctx)
	case 9:
		_ = r.client.AppsV1().ReplicaSets("default").Delete(ctx, "copies", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	case 15, 16, 17:
		_ = r.createReplicaSet(ctx)
	case 20, 21, 26, 33:
		_ = r.client.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "turns-1"}})
	case 10, 11:
		_, _ = r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, metav1.CreateOptions{})
	case 12, 13, 14:
		pod := r.pod(fmt.Sprint("till-", i))
		pod.Finalizers = nil
		_, _ = r.client.CoreV1().Pods(shop).Create(ctx, pod, metav1.CreateOptions{})
	case 18, 19:
		_ = r.client.CoreV1().Namespaces().Delete(ctx, shop, metav1.DeleteOptions{})
	case 22, 23:
		_ = r.client.AppsV1().ReplicaSets("default").Delete(ctx, "copies", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	case 28, 29, 30, 31:
		_ = r.createReplicaSet(ctx)
	}
}

// createBudget gives the StatefulSet a budget that allows one missing pod.
func (r *seededRun) createBudget(ctx context.Context) error {
	meta, selector, _ := metaFor("turns")
	_, err := r.client.PolicyV1().PodDisruptionBudgets("default").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MaxUnavailable: new(intstr.FromInt32(1))},
	}, metav1.CreateOptions{})
	return err
}

// watch watches pods for a second.
func (r *seededRun) watch(ctx context.Context, opts metav1.ListOptions) {
	watching, err := r.client.CoreV1().Pods("default").Watch(ctx, opts)
	if err != nil {
		return
	}
	time.Sleep(time.Second)
	watching.Stop()
}
