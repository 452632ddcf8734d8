package verbs_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
)

func bindTo(pod, node string) *corev1.Binding {
	return &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

func TestBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bind := func(b *corev1.Binding) call {
			return call{verb: proto.VerbCreate, name: b.Name, sub: "binding", body: b}
		}
		r.pod("x", unbound)
		wrong := bindTo("x", "n1")
		wrong.UID = "A"
		uid := string(r.get("x").UID)
		r.refused(bind(wrong), 409, `Operation cannot be fulfilled on pods "x": StorageError: invalid object, Code: 4, `+
			`Key: /registry/pods/default/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: A, UID in object meta: `+uid)
		wrong.UID, wrong.ResourceVersion = types.UID(uid), "1"
		r.refused(bind(wrong), 409, `Operation cannot be fulfilled on pods "x": StorageError: invalid object, Code: 4, `+
			`Key: /registry/pods/default/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: `+
			`ResourceVersion in precondition: 1, ResourceVersion in object meta: `+r.get("x").ResourceVersion)
		r.refused(bind(bindTo("x", "")), 422, `Binding "x" is invalid: target.name: Required value`)

		right := bindTo("x", "n1")
		right.UID, right.Annotations = types.UID(uid), map[string]string{"a": "b"}
		got := r.ok(bind(right))
		if got.code != 201 || got.status == nil || got.status.Status != metav1.StatusSuccess {
			t.Errorf("%d %+v", got.code, got.status)
		}
		pod := r.get("x")
		scheduled := false
		for _, c := range pod.Status.Conditions {
			scheduled = scheduled || c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
		}
		if pod.Spec.NodeName != "n1" || !scheduled || pod.Annotations["a"] != "b" {
			t.Errorf("%+v", pod)
		}
		const conflict = `Operation cannot be fulfilled on pods/binding "x": pod x `
		r.refused(bind(bindTo("x", "n2")), 409, conflict+`is already assigned to node "n1"`)
		r.ok(deletePod("x", nil))
		r.refused(bind(bindTo("x", "n2")), 409, conflict+`is being deleted, cannot be assigned to a host`)
		r.refused(bind(bindTo("nothing", "n2")), 404, `pods "nothing" not found`)
		r.pod("g", unbound, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}} })
		r.refused(bind(bindTo("g", "n2")), 409, `Operation cannot be fulfilled on pods/binding "g": pod g has non-empty .spec.schedulingGates`)
	})
}

func TestBindRaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("x", unbound, held("a.b/c"))
		bind := call{verb: proto.VerbCreate, name: "x", sub: "binding", body: bindTo("x", "n1")}
		_, late := r.race(deletePod("x", nil), bind)
		equal(t, "API-81", late.message(), `Operation cannot be fulfilled on pods/binding "x": pod x is being deleted, cannot be assigned to a host`)
	})
}
