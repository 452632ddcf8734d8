package rootca

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDecide has namespaces and what they have of the ConfigMap.
func TestDecide(t *testing.T) {
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	going := shop.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	right := Decide(shop, nil, "authority")
	if right == nil || right.Namespace != "shop" || right.Name != "kube-root-ca.crt" || right.Data["ca.crt"] != "authority" {
		t.Fatalf("in a new namespace: %+v", right)
	}
	changed := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		c := right.DeepCopy()
		c.ResourceVersion, c.Labels = "7", map[string]string{"mine": "yes"}
		change(c)
		return c
	}
	for name, c := range map[string]struct {
		namespace *corev1.Namespace
		have      *corev1.ConfigMap
		writes    bool
	}{
		"it is right":               {shop, changed(func(*corev1.ConfigMap) {}), false},
		"described otherwise":       {shop, changed(func(c *corev1.ConfigMap) { c.Annotations[descriptionKey] = "mine" }), false},
		"another authority":         {shop, changed(func(c *corev1.ConfigMap) { c.Data["ca.crt"] = "older" }), true},
		"an entry too many":         {shop, changed(func(c *corev1.ConfigMap) { c.Data["b"] = "c" }), true},
		"no description":            {shop, changed(func(c *corev1.ConfigMap) { c.Annotations = nil }), true},
		"none, of one that goes":    {going, nil, false},
		"another, of one that goes": {going, changed(func(c *corev1.ConfigMap) { c.Data = nil }), false},
	} {
		got := Decide(c.namespace, c.have, "authority")
		if (got != nil) != c.writes {
			t.Errorf("%s: writes %+v", name, got)
		}
		if got != nil && (len(got.Data) != 1 || got.Data["ca.crt"] != "authority" || got.Annotations[descriptionKey] == "" || got.ResourceVersion != "7" || got.Labels["mine"] != "yes") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
