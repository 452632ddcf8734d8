package serviceaccount

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	active := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	deleted, terminating := active, active
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	terminating.Status.Phase = corev1.NamespaceTerminating
	if made := Decide(&active, nil); made == nil || made.Namespace != "shop" || made.Name != "default" {
		t.Errorf("active: %v", made)
	}
	for name, made := range map[string]*corev1.ServiceAccount{
		"there is one": Decide(&active, &corev1.ServiceAccount{}), "deleted": Decide(&deleted, nil), "terminating": Decide(&terminating, nil),
	} {
		if made != nil {
			t.Errorf("%s: made %v", name, made)
		}
	}
}
