package history

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func owner(image string) Owner {
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return Owner{
		Object: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}},
		Kind:   appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Template: template, Labels: map[string]string{"app": "web"},
	}
}

func revision(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	made, err := New(owner(image), number)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestNew(t *testing.T) {
	one, other := revision(t, "a", 1), revision(t, "b", 2)
	if one.Name != "web-"+one.Labels[HashLabel] || one.Name == other.Name || one.Labels["app"] != "web" || one.OwnerReferences[0].UID != "u" {
		t.Errorf("a revision %+v, another %s", one.ObjectMeta, other.Name)
	}
	if !Equal(one, revision(t, "a", 7)) || Equal(one, other) {
		t.Error("revisions are not equal by their templates")
	}
	taken := owner("a")
	taken.Collisions = new(int32(1))
	if again, err := New(taken, 1); err != nil || again.Name == one.Name || !Equal(again, one) {
		t.Errorf("after a collision: %v, %v", again.Name, err)
	}
	back, err := Template(one)
	if err != nil || back.Spec.Containers[0].Image != "a" || back.Labels["app"] != "web" {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

func TestExcess(t *testing.T) {
	all := []*appsv1.ControllerRevision{revision(t, "c", 3), revision(t, "a", 1), revision(t, "d", 4), revision(t, "b", 2)}
	Sort(all)
	if Next(all) != 5 || Next(nil) != 1 {
		t.Errorf("the next are %d and %d, want 5 and 1", Next(all), Next(nil))
	}
	var gone []int64
	for _, one := range Excess(all, 1, func(r *appsv1.ControllerRevision) bool { return r.Revision == 1 }) {
		gone = append(gone, one.Revision)
	}
	if !slices.Equal(gone, []int64{2, 3}) {
		t.Errorf("%v go, want 2 and 3: 1 is in use, and one may stay", gone)
	}
}
