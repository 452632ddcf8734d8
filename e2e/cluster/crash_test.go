package cluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// TestCrashes kills the controllers repeatedly while a namespace is emptied, a chain of owners is
// deleted in the foreground, and another owner orphans its dependents. All must complete.
func TestCrashes(t *testing.T) {
	play(t, stage.Config{Nodes: 1, Controllers: []string{"namespace", "garbagecollector"}}, func(r *rig) {
		r.create("namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		for i := range 100 {
			r.create("configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("x-%d", i)}})
		}
		top, leaver := r.createOwned("top"), r.createOwned("leaver")
		for i := range 50 {
			middle := r.createOwned(fmt.Sprintf("middle-%d!", i), top)
			r.createOwned(fmt.Sprintf("bottom-%d!", i), middle)
			r.createOwned(fmt.Sprintf("left-%d", i), leaver)
		}
		r.delete("namespaces shop", metav1.DeleteOptions{})
		r.delete("configmaps top", policy(metav1.DeletePropagationForeground))
		r.delete("configmaps leaver", policy(metav1.DeletePropagationOrphan))
		for i := range 40 {
			time.Sleep(time.Duration(1+7*i) * time.Millisecond)
			r.Stop("controllers")
			r.Start("controllers")
		}
		r.until("the namespace is gone", func() bool { return get[*corev1.Namespace](r, "namespaces shop") == nil })
		r.until("only those that were left are there", func() bool { return len(r.list("configmaps default/")) == 50 })
		for _, obj := range r.list("configmaps default/") {
			if len(obj.GetOwnerReferences()) > 0 {
				t.Errorf("%s still names its owner", obj.GetName())
			}
		}
	})
}
