package verbs_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

const webPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}},
	"spec":{"containers":[{"name":"main","image":"nginx:1"}]}}`

// applying is a request to apply a manifest to a pod.
func applying(manager, name, manifest string) call {
	return call{
		verb: proto.VerbPatch, name: name, contentType: "application/apply-patch+yaml", body: manifest,
		options: &metav1.PatchOptions{FieldManager: manager},
	}
}

// managers are who owns something of an object: "manager operation subresource".
func managers(obj kinds.Object) []string {
	var all []string
	for _, e := range obj.GetManagedFields() {
		all = append(all, strings.TrimSpace(e.Manager+" "+string(e.Operation)+" "+e.Subresource))
	}
	return all
}

// TestApply: an apply makes the object, changes it, and leaves it alone when it is so already.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		made := r.do(applying("one", "web", webPod))
		if made.code != 201 || made.obj.GetUID() == "" || !slices.Equal(managers(made.obj), []string{"one Apply"}) {
			t.Fatalf("create: %d %s %v", made.code, made.message(), made.obj)
		}
		if fields := made.obj.GetManagedFields()[0].FieldsV1.GetRawString(); strings.Contains(fields, "restartPolicy") {
			t.Errorf("who applies owns defaults: %s", fields)
		}
		if pod, _ := made.obj.(*corev1.Pod); pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Status.Phase != corev1.PodPending {
			t.Errorf("the pod lacks defaults: %+v", pod)
		}
		time.Sleep(time.Minute)
		before := r.revision()
		same := r.do(applying("one", "web", webPod))
		if same.code != 200 || r.revision() != before {
			t.Errorf("applied again: %d %s, revision %d, was %d", same.code, same.message(), r.revision(), before)
		}
		changed := r.do(applying("one", "web", strings.Replace(webPod, "nginx:1", "nginx:2", 1)))
		if pod, _ := changed.obj.(*corev1.Pod); changed.code != 200 || pod.Spec.Containers[0].Image != "nginx:2" {
			t.Errorf("changed: %d %s", changed.code, changed.message())
		}
		conflict := r.do(applying("two", "web", webPod))
		if want := `Apply failed with 1 conflict: conflict with "one": .spec.containers[name="main"].image`; conflict.code != 409 || conflict.message() != want {
			t.Errorf("conflict: %d %s", conflict.code, conflict.message())
		}
		forced := applying("two", "web", webPod)
		forced.options = &metav1.PatchOptions{FieldManager: "two", Force: new(true), DryRun: []string{"All"}}
		before = r.revision()
		if got := r.do(forced); got.code != 200 || r.revision() != before || len(managers(got.obj)) != 2 {
			t.Errorf("forced, dry: %d %s", got.code, got.message())
		}
		stale := strings.Replace(webPod, `"name":"web",`, `"name":"web","resourceVersion":"1",`, 1)
		r.refused(applying("one", "web", stale), 409,
			`Operation cannot be fulfilled on pods "web": the object has been modified; please apply your changes to the latest version and try again`)
	})
}

// TestApplyRefusals: an apply is judged like any other write.
func TestApplyRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.refused(applying("", "web", webPod), 422,
			`PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`)
		r.refused(applying("one", "other", webPod), 400,
			"the name of the object (web) does not match the name on the URL (other)")
		r.refused(applying("one", "web", strings.Replace(webPod, `"name":"web",`, `"name":"web","uid":"u",`, 1)), 409,
			`Operation cannot be fulfilled on pods "web": uid mismatch: the provided object specified uid u, and no existing object was found`)
		status := applying("one", "web", webPod)
		status.sub = "status"
		r.refused(status, 404, `pods "web" not found`)
		if got := r.do(applying("one", "web", strings.Replace(webPod, `"image":"nginx:1"`, `"image":""`, 1))); got.code != 422 {
			t.Errorf("no image: %d %s", got.code, got.message())
		}
	})
}

// TestTracking: what is created without a field manager is not tracked, by whomever it is
// changed, until it is applied; from then on everybody is, by name or by identity.
func TestTracking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		pod := r.pod("p")
		if len(pod.ManagedFields) > 0 {
			t.Fatalf("tracked: %v", managers(pod))
		}
		label := merge("p", "", `{"metadata":{"labels":{"a":"1"}}}`)
		label.options = &metav1.PatchOptions{FieldManager: "kubectl-label"}
		r.ok(label)
		if now := r.get("p"); len(now.ManagedFields) > 0 {
			t.Errorf("tracked: %v", managers(now))
		}
		r.ok(applying("one", "p", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"n":"1"}}}`))
		if got := managers(r.get("p")); !slices.Equal(got, []string{"one Apply", "before-first-apply Update"}) {
			t.Errorf("applied: %q", got)
		}
		time.Sleep(time.Minute)
		r.ok(merge("p", "status", `{"status":{"phase":"Running"}}`))
		if got := managers(r.get("p")); len(got) != 3 || !strings.HasSuffix(got[2], "Update status") {
			t.Errorf("its status written: %q", got)
		}
		made := call{verb: proto.VerbCreate, body: strings.Replace(webPod, `"name":"web",`, `"name":"made",`, 1), contentType: "application/json"}
		made.options = &metav1.CreateOptions{FieldManager: "kubectl-create"}
		r.ok(made)
		now := r.get("made")
		if got := managers(now); !slices.Equal(got, []string{"kubectl-create Update"}) {
			t.Errorf("created: %q", got)
		}
		if !now.ManagedFields[0].Time.Equal(&now.CreationTimestamp) {
			t.Errorf("created at %v, tracked at %v", now.CreationTimestamp, now.ManagedFields[0].Time)
		}
	})
}

// TestApplyScale: whoever applies a Scale owns the replicas of the object behind it.
func TestApplyScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"nginx:1"}]}}}}`
		made := applying("one", "web", deployment)
		made.resource = "deployments.apps"
		r.ok(made)
		scale := func(manager string, force bool) call {
			a := applying(manager, "web", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":5}}`)
			a.resource, a.sub, a.options = "deployments.apps", "scale", &metav1.PatchOptions{FieldManager: manager, Force: &force}
			return a
		}
		if got := r.do(scale("two", false)); got.code != 409 || got.message() != `Apply failed with 1 conflict: conflict with "one": .spec.replicas` {
			t.Errorf("a conflict: %d %s", got.code, got.message())
		}
		if got := r.do(scale("two", true)); got.code != 200 || got.obj.GetObjectKind().GroupVersionKind().Kind != "Scale" {
			t.Errorf("by force: %d %s", got.code, got.message())
		}
		now := r.ok(call{verb: proto.VerbGet, resource: "deployments.apps", name: "web"})
		owners := map[string]bool{}
		for _, e := range now.obj.GetManagedFields() {
			owners[e.Manager+" "+e.Subresource] = strings.Contains(e.FieldsV1.GetRawString(), "f:replicas")
		}
		if len(owners) != 2 || owners["one "] || !owners["two scale"] {
			t.Errorf("owners of the replicas: %v", owners)
		}
		if again := r.do(made); again.code != 409 {
			t.Errorf("applied again: %d %s", again.code, again.message())
		}
	})
}

// TestApplyRefusesABomb: a manifest whose aliases would fill the memory is not read (T11).
func TestApplyRefusesABomb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		bomb := "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]"
		const want = "Request entity too large: YAML with its aliases written out is too large: want at most 3145728 bytes"
		r.refused(applying("one", "web", bomb), 413, want)
		scaled := applying("one", "web", bomb)
		scaled.resource, scaled.sub = "deployments.apps", "scale"
		r.refused(scaled, 413, want)
	})
}
