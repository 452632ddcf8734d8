package cluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// TestNamespaceWithAThousandObjects deletes a namespace. Its conditions say what it waits for,
// first a pod with a grace and then a finalizer, and it goes after that (API-90).
func TestNamespaceWithAThousandObjects(t *testing.T) {
	play(t, stage.Config{Controllers: []string{"scheduler", "namespace"}}, func(r *rig) {
		r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		meta := func(i int) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("x-%d", i)}
		}
		for i := range 240 {
			r.create("configmaps", &corev1.ConfigMap{ObjectMeta: meta(i)})
			r.create("secrets", &corev1.Secret{ObjectMeta: meta(i)})
			r.create("serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta(i)})
			r.create("roles.rbac.authorization.k8s.io", &rbacv1.Role{ObjectMeta: meta(i)})
		}
		for i := range 30 {
			r.create("endpointslices.discovery.k8s.io", &discoveryv1.EndpointSlice{ObjectMeta: meta(i), AddressType: "IPv4"})
		}
		held := &corev1.ConfigMap{ObjectMeta: meta(1000)}
		held.Finalizers = []string{"example.com/hold"}
		r.create("configmaps", held)
		for i := range 9 {
			p := pod(fmt.Sprintf("x-%d", i), "")
			p.Namespace = "shop"
			r.create("pods", p)
		}
		stubborn := pod("stubborn", "", func(p *corev1.Pod) {
			p.Namespace = "shop"
			p.Annotations = map[string]string{"script.podfall.io/main": "ignores TERM"}
		})
		r.create("pods", stubborn)
		time.Sleep(10 * time.Second)

		r.delete("namespaces shop", metav1.DeleteOptions{})
		time.Sleep(6 * time.Second)
		r.wantCondition(corev1.NamespaceContentRemaining, "Some resources are remaining: pods. has 10 resource instances")
		if n := len(r.list("configmaps shop/")); n != 241 {
			t.Errorf("%d configmaps while pods remain, want all 241", n)
		}
		took := r.until("the pods are gone", func() bool { return len(r.list("pods shop/")) == 0 })
		if took < 20*time.Second || took > 40*time.Second {
			t.Errorf("the pods took %v more", took)
		}
		r.until("all but the finalizer is gone", func() bool { return len(r.list("configmaps shop/")) == 1 })
		time.Sleep(100 * time.Millisecond)
		r.wantCondition(corev1.NamespaceContentRemaining, "Some resources are remaining: configmaps. has 1 resource instances")
		r.wantCondition(corev1.NamespaceFinalizersRemaining,
			"Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
		time.Sleep(5 * time.Minute)
		if get[*corev1.Namespace](r, "namespaces shop") == nil {
			t.Fatal("the namespace went while something was held in it")
		}
		r.patch("configmaps shop/x-1000", map[string]any{"metadata": map[string]any{"finalizers": nil}})
		r.until("the namespace is gone", func() bool { return get[*corev1.Namespace](r, "namespaces shop") == nil })
		r.wantEmpty()
	})
}

// wantCondition checks a condition of the namespace shop.
func (r *rig) wantCondition(kind corev1.NamespaceConditionType, want string) {
	r.Helper()
	ns := get[*corev1.Namespace](r, "namespaces shop")
	for _, c := range ns.Status.Conditions {
		if c.Type == kind {
			if c.Status != corev1.ConditionTrue || c.Message != want {
				r.Errorf("%s: %s %s, want %s", kind, c.Status, c.Message, want)
			}
			return
		}
	}
	r.Errorf("no condition %s: %+v", kind, ns.Status)
}

// wantEmpty checks that no object of any kind but events is left in the namespace shop.
func (r *rig) wantEmpty() {
	r.Helper()
	for _, kind := range kinds.All() {
		if !kind.Namespaced || kind.Resource == "events" {
			continue
		}
		if left := r.list(kind.GroupResource().String() + " shop/"); len(left) > 0 {
			r.Errorf("%d %s are left: %s", len(left), kind.Resource, left[0].GetName())
		}
	}
}
