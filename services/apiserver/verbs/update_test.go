package verbs_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
)

func put(pod *corev1.Pod, change ...func(*corev1.Pod)) call {
	next := pod.DeepCopy()
	for _, c := range change {
		c(next)
	}
	return call{verb: proto.VerbUpdate, name: pod.Name, body: next}
}

func merge(name, sub, patch string) call {
	return call{verb: proto.VerbPatch, name: name, sub: sub, contentType: "application/merge-patch+json", body: patch}
}

func labelled(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"l": value} }
}

func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old := r.pod("x")
		got := r.ok(put(old, labelled("1")))
		if got.code != 200 || revisionOf(t, got.obj) != r.revision() || r.get("x").Labels["l"] != "1" {
			t.Errorf("%d %+v", got.code, got.obj)
		}
		before := r.revision()
		if got := r.ok(put(r.get("x"))); revisionOf(t, got.obj) != before || r.revision() != before {
			t.Error("writing the same again was a write (API-46)")
		}
		r.refused(put(old, labelled("2")), 409, `Operation cannot be fulfilled on pods "x": the object has been modified; `+
			`please apply your changes to the latest version and try again`) // API-65
		r.ok(put(old, labelled("3"), func(p *corev1.Pod) { p.ResourceVersion = "" }))
		equal(t, "the last writer wins", r.get("x").Labels["l"], "3")
		r.refused(put(old, func(p *corev1.Pod) { p.Name = "nothing"; p.ResourceVersion = "" }), 400,
			"the name of the object (nothing) does not match the name on the URL (x)")
		r.refused(put(podNamed("nothing")), 404, `pods "nothing" not found`) // API-66
		uid := string(r.get("x").UID)
		r.refused(put(r.get("x"), func(p *corev1.Pod) { p.UID = "A" }), 409, `Operation cannot be fulfilled on pods "x": StorageError: `+
			`invalid object, Code: 4, Key: /registry/pods/default/x, ResourceVersion: 0, AdditionalErrorMsg: `+
			`Precondition failed: UID in precondition: A, UID in object meta: `+uid) // API-63
		if got := r.do(put(r.get("x"), graceOf(1))); got.code != 422 ||
			!strings.HasPrefix(got.message(), `Pod "x" is invalid: spec: Forbidden: pod updates may not change fields other than`) {
			t.Errorf("API-70: %d %s", got.code, got.message())
		}
		before = r.revision()
		got = r.ok(func() call {
			a := put(r.get("x"), labelled("4"))
			a.options = &metav1.UpdateOptions{DryRun: []string{"All"}}
			return a
		}())
		if got.obj.GetLabels()["l"] != "4" || r.revision() != before {
			t.Error("a dry run wrote, or did not answer as if it had")
		}
	})
}

func TestPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		pod := r.pod("p")
		r.ok(merge("p", "", `{"metadata":{"labels":{"a":"1"}}}`))
		r.ok(call{verb: proto.VerbPatch, name: "p", contentType: "application/json-patch+json", body: `[{"op":"add","path":"/metadata/labels/b","value":"2"}]`})
		r.ok(call{verb: proto.VerbPatch, name: "p", sub: "status", contentType: "application/strategic-merge-patch+json", body: `{"status":{"phase":"Running"}}`})
		now := r.get("p")
		if now.Labels["a"] != "1" || now.Labels["b"] != "2" || now.Status.Phase != corev1.PodRunning {
			t.Errorf("%+v", now)
		}
		r.refused(merge("p", "", `{"metadata":{"resourceVersion":"`+pod.ResourceVersion+`"}}`), 409,
			`Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the latest version and try again`)
		r.refused(merge("nothing", "status", `{"metadata":{"uid":"u"}}`), 404, `pods "nothing" not found`) // API-64
		if got := r.do(merge("p", "status", `{"metadata":{"uid":"other"},"status":{"phase":"Failed"}}`)); got.code != 422 ||
			got.message() != `Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable` {
			t.Errorf("UNS-03: %d %s", got.code, got.message())
		}
		for _, media := range []string{"application/apply-patch+cbor", "text/plain"} {
			if got := r.do(call{verb: proto.VerbPatch, name: "p", contentType: media, body: "{}"}); got.code != 415 {
				t.Errorf("%s: %d %s", media, got.code, got.message())
			}
		}
	})
}

func TestPatchIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p")
		one, two := r.race(merge("p", "", `{"metadata":{"labels":{"a":"1"}}}`), merge("p", "", `{"metadata":{"labels":{"b":"2"}}}`))
		if one.code != 200 || two.code != 200 {
			t.Errorf("codes %d %d", one.code, two.code)
		}
		if now := r.get("p").Labels; now["a"] != "1" || now["b"] != "2" {
			t.Errorf("labels %v", now)
		}
		// A replacement that names its version is not (A5).
		pod := r.get("p")
		one, two = r.race(put(pod, labelled("1")), put(pod, labelled("2")))
		if one.code != 200 || two.code != 409 {
			t.Errorf("codes %d %d %s", one.code, two.code, two.message())
		}
	})
}

func TestDeletionByUpdate(t *testing.T) {
	for _, sub := range []string{"", "status"} {
		t.Run("API-53 TRC-10 by PUT "+sub, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.pod("p", held("a.b/c"))
				r.ok(deletePod("p", grace(0)))
				before, last := r.revision(), r.get("p")
				a := put(last, held())
				a.sub = sub
				got := r.ok(a)
				equal(t, "answer", describe(got.obj), "p +0s grace=0 gen=2")
				if got.obj.GetResourceVersion() != last.ResourceVersion {
					t.Errorf("the answer is of revision %s, want that submitted, %s", got.obj.GetResourceVersion(), last.ResourceVersion)
				}
				equal(t, "events", r.since(before), "DELETED p +0s grace=0 gen=2 [a.b/c]")
			})
		})
	}
	t.Run("API-53 by PATCH", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.pod("p", held("a.b/c"))
			r.ok(deletePod("p", grace(0)))
			before := r.revision()
			r.ok(merge("p", "", `{"metadata":{"finalizers":null}}`))
			equal(t, "events", r.since(before), "DELETED p +0s grace=0 gen=2 [a.b/c]")
		})
	})
	t.Run("API-54 TRC-11 while grace is in force", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.pod("p", held("a.b/c"))
			r.ok(deletePod("p", nil))
			before := r.revision()
			r.ok(merge("p", "", `{"metadata":{"finalizers":null}}`))
			time.Sleep(9 * time.Second)
			r.ok(deletePod("p", grace(0)))
			equal(t, "events", r.since(before),
				"MODIFIED p +21s grace=30 gen=2\nMODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2")
		})
	})
	t.Run("API-52 TRC-10 the kubelet's delete of a held pod", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			pod := r.pod("p", held("a.b/c"))
			before := r.revision()
			final := grace(0)
			final.Preconditions = &metav1.Preconditions{UID: &pod.UID}
			r.ok(deletePod("p", nil))
			time.Sleep(3 * time.Second)
			r.ok(deletePod("p", final))
			r.ok(deletePod("p", final))
			r.ok(merge("p", "", `{"metadata":{"finalizers":[]}}`))
			equal(t, "events", r.since(before), "MODIFIED p +27s grace=30 gen=2 [a.b/c]\n"+
				"MODIFIED p +0s grace=0 gen=2 [a.b/c]\nDELETED p +0s grace=0 gen=2 [a.b/c]")
		})
	})
}

func TestUpdateOfADeletingPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p", held("a.b/c"))
		r.ok(deletePod("p", nil))
		r.refused(put(r.get("p"), held("a.b/c", "x.y/z")), 422, `Pod "p" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added `+
			`if the object is being deleted, found new finalizers []string{"x.y/z"}`) // API-55
		before := r.revision()
		r.ok(put(r.get("p"), func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, nil })) // API-56
		equal(t, "there is no undelete", r.since(before), "")
		r.refused(put(r.get("p"), func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(7)) }), 422,
			`Pod "p" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 7: field is immutable`)
	})
}

func TestUpdateCreatesSomeKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		endpoints := &corev1.Endpoints{ //nolint:staticcheck // one of the kinds that an update creates
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
			ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"},
		}
		got := r.ok(call{verb: proto.VerbUpdate, resource: "endpoints", name: "e", body: endpoints})
		if got.code != 201 {
			t.Errorf("code %d", got.code)
		}
	})
}

func TestOtherVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.ok(call{
			verb: proto.VerbCreate, resource: "cronjobs.batch", version: "v1beta1", contentType: "application/json",
			body: `{"apiVersion":"batch/v1beta1","kind":"CronJob","metadata":{"name":"c"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
		})
		for version, want := range map[string]string{"v1": "batch/v1", "v1beta1": "batch/v1beta1"} {
			got := r.ok(call{verb: proto.VerbGet, resource: "cronjobs.batch", version: version, name: "c"})
			if have := got.obj.GetObjectKind().GroupVersionKind().GroupVersion().String(); have != want {
				t.Errorf("asked for %s, got %s", want, have)
			}
		}
	})
}
