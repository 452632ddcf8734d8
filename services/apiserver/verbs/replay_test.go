package verbs_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		twice := func(a call, code int32) (result, result) {
			t.Helper()
			a.operation = fmt.Sprint("twice-", r.asked.Add(1))
			one := r.ok(a)
			before := r.revision()
			two := r.ok(a)
			if two.code != code || one.code != code || r.revision() != before {
				t.Errorf("%s twice: %d then %d, revision %d then %d", a.verb, one.code, two.code, before, r.revision())
			}
			if one.obj != nil && (describe(one.obj) != describe(two.obj) || one.obj.GetResourceVersion() != two.obj.GetResourceVersion()) {
				t.Errorf("%s twice: %s then %s", a.verb, describe(one.obj), describe(two.obj))
			}
			return one, two
		}
		twice(call{verb: proto.VerbCreate, body: podNamed("p", unbound)}, 201)
		one, two := twice(call{verb: proto.VerbCreate, body: podNamed("", func(p *corev1.Pod) { p.GenerateName = "g-" })}, 201)
		equal(t, "a generated name", two.obj.GetName(), one.obj.GetName())
		twice(merge("p", "", `{"metadata":{"labels":{"a":"1"}}}`), 200)
		twice(call{verb: proto.VerbCreate, name: "p", sub: "binding", body: bindTo("p", "n1")}, 201)
		twice(deletePod("p", nil), 200)
		twice(deletePod("p", notOrphaning(grace(9))), 202)
		twice(deletePod("p", grace(0)), 200)

		// A retried delete of an old pod leaves its successor alone (D7, D9).
		a := deletePod("p", grace(0))
		a.operation = "once"
		r.pod("p")
		r.ok(a)
		r.pod("p")
		r.ok(a)
		if r.get("p") == nil {
			t.Error("a repeated delete removed another pod")
		}
		r.refused(call{verb: proto.VerbDelete, name: "other", options: grace(0), operation: "once"}, 400,
			`operation: "once" has been another request's; want a new one for each request`)
		r.refused(call{verb: proto.VerbCreate, body: podNamed("p"), operation: "once"}, 400,
			`operation: "once" has been another request's; want a new one for each request`)

		patch := merge("p", "", `{"metadata":{"labels":{"a":"1"}}}`)
		patch.operation = "once"
		r.refused(patch, 400,
			`operation: "once" has been another request's; want a new one for each request`)
		patch.operation = "label"
		r.ok(patch)
		r.refused(call{verb: proto.VerbDelete, name: "p", options: grace(0), operation: "label"}, 400,
			`operation: "label" has been another request's; want a new one for each request`)

		collection := call{verb: proto.VerbDeleteCollection, options: grace(0), list: &metav1.ListOptions{}, operation: "all"}
		first := r.ok(collection)
		r.pod("q")
		equal(t, "a repeated collection", names(r.ok(collection)), names(first))
		if r.get("q") == nil {
			t.Error("a repeated collection removed what came later")
		}
	})
}

// TestReplayWarns has somebody who forces a pod away from a node that is gone be told so by
// the second answer too: the first may not have come.
func TestReplayWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p")
		a := deletePod("p", grace(0))
		a.operation = "force"
		if one, two := r.ok(a), r.ok(a); len(one.warnings) != 1 || !slices.Equal(one.warnings, two.warnings) {
			t.Errorf("warned of %q, then of %q", one.warnings, two.warnings)
		}
	})
}

func TestReplayIsNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p")
		a := deletePod("p", nil)
		a.operation = "op"
		r.ok(a)
		a.as = "node:n2"
		r.refused(a, 403, `pods "p" is forbidden: node "n2" can only delete pods with spec.nodeName set to itself`)
	})
}

func TestReplayOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/db"
		at := func(_ *verbs.Config, disk *store.Config) { disk.Path = path }
		a := call{verb: proto.VerbCreate, body: podNamed("p"), operation: "op"}
		first := newRig(t, at)
		uid := string(first.ok(a).obj.GetUID())
		first.stop()
		got := newRig(t, at).ok(a)
		if got.code != 201 || string(got.obj.GetUID()) != uid {
			t.Errorf("%d %s, want 201 and %s", got.code, got.obj.GetUID(), uid)
		}
	})
}
