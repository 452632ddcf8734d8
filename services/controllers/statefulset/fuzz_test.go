package statefulset

import (
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzOrdinal: a pod of a set has the number that it was named with, and a pod of another
// set, or of another name, has none.
func FuzzOrdinal(f *testing.F) {
	f.Fuzz(func(t *testing.T, set, name string, ordinal uint16) {
		owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: set}}
		made := &corev1.Pod{}
		(&planning{View: View{Set: owner}}).setIdentity(made, int(ordinal))
		if got := Ordinal(made, owner); got != int(ordinal) {
			t.Errorf("%q is number %d, want %d", made.Name, got, ordinal)
		}
		if r := (&planning{View: View{Set: owner}}); !r.hasIdentity(made) {
			t.Errorf("%q does not fit itself", made.Name)
		}
		other := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: set + "-0"}}
		if got := Ordinal(made, other); got >= 0 {
			t.Errorf("%q is number %d of %q", made.Name, got, other.Name)
		}
		got := Ordinal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, owner)
		if rest, ok := strings.CutPrefix(name, set+"-"); got >= 0 && (!ok || strings.TrimLeft(rest, "0") != strings.TrimLeft(strconv.Itoa(got), "0")) || got < -1 {
			t.Errorf("%q is number %d of %q", name, got, set)
		}
	})
}
