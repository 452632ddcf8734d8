package verbs_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

func TestDelete(t *testing.T) {
	propagate := func(policy metav1.DeletionPropagation) *metav1.DeleteOptions {
		return &metav1.DeleteOptions{PropagationPolicy: &policy}
	}
	terminal := func(phase corev1.PodPhase) func(*rig) {
		return func(r *rig) { r.phase("p", phase) }
	}
	first := func(opts *metav1.DeleteOptions) func(*rig) {
		return func(r *rig) { r.ok(deletePod("p", opts)) }
	}
	rows := []struct {
		id     string
		pod    func(*corev1.Pod)
		before func(*rig)
		opts   *metav1.DeleteOptions
		code   int32
		answer string
		events string
	}{
		{id: "TD-015 default", answer: "p +30s grace=30 gen=2", events: "MODIFIED p +30s grace=30 gen=2"},
		{id: "TD-016 value", opts: grace(32), answer: "p +32s grace=32 gen=2", events: "MODIFIED p +32s grace=32 gen=2"},
		{id: "TD-017 extend", before: first(nil), opts: grace(32), answer: "p +30s grace=30 gen=2"},
		{id: "TD-018 shorten", before: first(grace(60)), opts: grace(20), answer: "p +20s grace=20 gen=2", events: "MODIFIED p +20s grace=20 gen=2"},
		{
			id: "TD-019 immediate", before: first(nil), opts: grace(0), answer: "p +0s grace=0 gen=2",
			events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{
			id: "TRC-08 API-11 unscheduled", pod: unbound, answer: "p +0s grace=0 gen=2",
			events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{
			id: "TRC-09 API-11 succeeded", before: terminal(corev1.PodSucceeded), answer: "p +0s grace=0 gen=2",
			events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{
			id: "API-11 failed", before: terminal(corev1.PodFailed), opts: grace(60), answer: "p +0s grace=0 gen=2",
			events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{id: "API-13 negative", opts: grace(-1), answer: "p +1s grace=1 gen=2", events: "MODIFIED p +1s grace=1 gen=2"},
		{
			id: "API-14 TGPS 0", pod: graceOf(0), answer: "p +0s grace=0 gen=2",
			events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{id: "TD-031 negative TGPS", pod: graceOf(-7), answer: "p +1s grace=1 gen=2", events: "MODIFIED p +1s grace=1 gen=2"},
		{
			id: "TD-032 generation", pod: func(p *corev1.Pod) { p.Generation = 100 }, opts: grace(60),
			answer: "p +60s grace=60 gen=2", events: "MODIFIED p +60s grace=60 gen=2",
		},
		{
			id: "TD-005 finalizer", pod: held("foo.com/x"), opts: grace(0),
			answer: "p +0s grace=0 gen=2 [foo.com/x]", events: "MODIFIED p +0s grace=0 gen=2 [foo.com/x]",
		},
		{
			id: "API-42 API-46 repeated past grace", pod: held("foo.com/x"), before: first(grace(0)), opts: grace(0),
			answer: "p +0s grace=0 gen=2 [foo.com/x]",
		},
		{
			id: "API-50 foreground", opts: propagate("Foreground"),
			answer: "p +30s grace=30 gen=2 [foregroundDeletion]", events: "MODIFIED p +30s grace=30 gen=2 [foregroundDeletion]",
		},
		{id: "API-23 pending", before: first(nil), opts: propagate("Foreground"), answer: "p +30s grace=30 gen=2"},
		{
			id: "API-06 marked", opts: notOrphaning(&metav1.DeleteOptions{}), code: 202,
			answer: "p +30s grace=30 gen=2", events: "MODIFIED p +30s grace=30 gen=2",
		},
		{
			id: "API-06 pending", before: first(nil), opts: notOrphaning(&metav1.DeleteOptions{}), code: 202,
			answer: "p +30s grace=30 gen=2",
		},
		{
			id: "API-06 removed", opts: notOrphaning(grace(0)),
			answer: "p +0s grace=0 gen=2", events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{
			id: "TD-011 version precondition carried over", opts: &metav1.DeleteOptions{
				GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{ResourceVersion: new("current")},
			},
			answer: "p +0s grace=0 gen=2", events: "MODIFIED p +0s grace=0 gen=2\nDELETED p +0s grace=0 gen=2",
		},
		{
			id: "API-47 dry run", opts: &metav1.DeleteOptions{DryRun: []string{"All"}},
			answer: "p +30s grace=30 gen=2",
		},
		{
			id: "API-47 dry run of a forced one", opts: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), DryRun: []string{"All"}},
			answer: "p +0s grace=0 gen=2",
		},
	}
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if row.pod == nil {
					row.pod = func(*corev1.Pod) {}
				}
				r.pod("p", row.pod)
				if row.before != nil {
					row.before(r)
				}
				before, last := r.revision(), r.get("p")
				if row.opts != nil && row.opts.Preconditions != nil {
					row.opts.Preconditions.ResourceVersion = &last.ResourceVersion
				}
				got := r.ok(deletePod("p", row.opts))
				if row.code == 0 {
					row.code = 200
				}
				if got.code != row.code {
					t.Errorf("code %d, want %d", got.code, row.code)
				}
				equal(t, "answer", describe(got.obj), row.answer)
				equal(t, "events", r.since(before), row.events)
				want := r.revision() // API-44
				if row.events == "" {
					want = revisionOf(t, last)
				}
				if have := revisionOf(t, got.obj); have != want {
					t.Errorf("the answer is of revision %d, want %d", have, want)
				}
			})
		})
	}
}

func TestDeleteRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		pod := r.pod("x")
		uid, rv := types.UID("other"), "1"
		r.refused(deletePod("nothing", nil), 404, `pods "nothing" not found`) // API-02, TD-021
		r.refused(deletePod("x", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}), 409,
			`Operation cannot be fulfilled on Pod "x": the UID in the precondition (other) does not match the UID in record (`+
				string(pod.UID)+`). The object might have been deleted and then recreated`) // API-60
		r.refused(deletePod("x", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &rv}}), 409,
			`Operation cannot be fulfilled on Pod "x": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (`+
				pod.ResourceVersion+`). The object might have been modified`) // API-61
		r.refused(deletePod("nothing", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}), 404,
			`pods "nothing" not found`) // API-62
		r.refused(deletePod("nothing", &metav1.DeleteOptions{DryRun: []string{"Some"}}), 422,
			`DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`) // API-04
		r.refused(call{verb: proto.VerbDelete, resource: "namespaces", name: "kube-system", options: grace(0)}, 403,
			`namespaces "kube-system" is forbidden: this namespace may not be deleted`)
	})
}

func TestDeleteOfAKindThatIsNotReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		object := func(name string, finalizers ...string) *corev1.ConfigMap {
			m := &corev1.ConfigMap{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Finalizers: finalizers},
			}
			r.ok(call{verb: proto.VerbCreate, resource: "configmaps", body: m})
			return m
		}
		object("m")
		before := r.revision()
		got := r.ok(call{verb: proto.VerbDelete, resource: "configmaps", name: "m", options: grace(0)})
		// TD-008
		if got.status == nil || got.status.Status != metav1.StatusSuccess || got.status.Details == nil ||
			got.status.Details.Name != "m" || got.status.Details.Kind != "configmaps" || got.status.Details.UID == "" {
			t.Errorf("answer %+v", got.status)
		}
		equal(t, "no mark before the removal", r.since(before), "DELETED m gen=0")

		// TD-006
		held := object("h", "a.b/c", "d.e/f")
		before = r.revision()
		equal(t, "answer", describe(r.ok(call{verb: proto.VerbDelete, resource: "configmaps", name: "h", options: grace(0)}).obj),
			"h +0s grace=0 gen=0 [a.b/c d.e/f]")
		held.Finalizers = []string{"d.e/f"}
		r.ok(call{verb: proto.VerbUpdate, resource: "configmaps", name: "h", body: held})
		held.Finalizers = nil
		r.ok(call{verb: proto.VerbUpdate, resource: "configmaps", name: "h", body: held})
		equal(t, "one finalizer after the other", r.since(before),
			"MODIFIED h +0s grace=0 gen=0 [a.b/c d.e/f]\nMODIFIED h +0s grace=0 gen=0 [d.e/f]\nDELETED h +0s grace=0 gen=0 [d.e/f]")
	})
}

// race lets two requests decide on the same version: the first is on its way to the disk
// when the second comes, a second later.
func (r *rig) race(first, second call) (result, result) {
	r.t.Helper()
	release := r.stall()
	var one, two result
	done := make(chan struct{})
	go func() { defer close(done); one = r.do(first) }()
	time.Sleep(time.Second)
	other := make(chan struct{})
	go func() { defer close(other); two = r.do(second) }()
	synctest.Wait()
	release()
	<-done
	<-other
	return one, two
}

func TestDeleteRaces(t *testing.T) {
	t.Run("API-27 two first deletes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.pod("p")
			before := r.revision()
			one, two := r.race(deletePod("p", nil), deletePod("p", nil))
			if one.code != 200 || two.code != 200 {
				t.Errorf("codes %d and %d", one.code, two.code)
			}
			equal(t, "winner", describe(one.obj), "p +29s grace=30 gen=2")
			equal(t, "loser, its own copy", describe(two.obj), "p +30s grace=30 gen=2")
			equal(t, "the revision it was made from", two.obj.GetResourceVersion(), strconv.FormatInt(before, 10))
			equal(t, "events", r.since(before), "MODIFIED p +29s grace=30 gen=2")
		})
	})
	t.Run("API-43 TD-022 removed meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.pod("p")
			before := r.revision()
			_, two := r.race(deletePod("p", grace(0)), deletePod("p", grace(0)))
			equal(t, "loser", describe(two.obj), "p +0s grace=0 gen=2")
			equal(t, "the revision it was made from", two.obj.GetResourceVersion(), strconv.FormatInt(before, 10))
			equal(t, "events", r.since(before), "MODIFIED p -1s grace=0 gen=2\nDELETED p -1s grace=0 gen=2")
		})
	})
	t.Run("TD-009 TD-010 a finalizer came meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			pod := r.pod("p").DeepCopy()
			pod.Finalizers = []string{"a.b/c"}
			before := r.revision()
			_, two := r.race(call{verb: proto.VerbUpdate, name: "p", body: pod}, deletePod("p", grace(0)))
			equal(t, "answer", describe(two.obj), "p +0s grace=0 gen=2 [a.b/c]")
			equal(t, "events", r.since(before), "MODIFIED p gen=1 [a.b/c]\nMODIFIED p +0s grace=0 gen=2 [a.b/c]")
		})
	})
	t.Run("D1 bound meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.pod("p", unbound)
			before := r.revision()
			r.race(call{verb: proto.VerbCreate, name: "p", sub: "binding", body: bindTo("p", "n1")}, deletePod("p", nil))
			equal(t, "the node has its say", r.since(before), "MODIFIED p gen=1\nMODIFIED p +30s grace=30 gen=2")
		})
	})
	t.Run("API-45 the precondition is asked again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			pod := r.pod("p").DeepCopy()
			pod.Labels = map[string]string{"a": "b"}
			precondition := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new(pod.ResourceVersion)}}
			before := r.revision()
			_, two := r.race(call{verb: proto.VerbUpdate, name: "p", body: pod}, deletePod("p", precondition))
			if two.code != 409 {
				t.Errorf("code %d %s", two.code, two.message())
			}
			equal(t, "events", r.since(before), "MODIFIED p gen=1")
		})
	})
}

// TestDeleteThatWaited: a delete that found something else than it was decided on is of the time
// of its next attempt, and not of when the request came.
func TestDeleteThatWaited(t *testing.T) {
	for name, late := range map[string]call{
		"delete":   deletePod("p", grace(16)),
		"eviction": evict("p", func(e *policyv1.Eviction) { e.DeleteOptions = grace(16) }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				held := r.pod("p").DeepCopy()
				held.Finalizers = []string{"a.b/c"}
				before := r.revision()
				release := r.stall()
				var clients sync.WaitGroup
				clients.Go(func() { r.do(call{verb: proto.VerbUpdate, name: "p", body: held}) })
				synctest.Wait()
				clients.Go(func() { r.do(late) })
				time.Sleep(20 * time.Second)
				release()
				clients.Wait()
				events := strings.Split(r.since(before), "\n")
				equal(t, "the last", events[len(events)-1], "MODIFIED p +16s grace=16 gen=2 [a.b/c]")
			})
		})
	}
}

func TestShortenAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p")
		r.ok(deletePod("p", grace(60)))
		time.Sleep(55 * time.Second)
		before := r.revision()
		r.ok(deletePod("p", grace(10))) // API-25
		equal(t, "events", r.since(before), "MODIFIED p +0s grace=1 gen=2")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(cfg *verbs.Config, _ *store.Config) { cfg.Compat = must(proto.CompatFor("v1.22")) })
		r.pod("p")
		r.ok(deletePod("p", grace(60)))
		time.Sleep(55 * time.Second)
		before := r.revision()
		r.ok(deletePod("p", grace(10)))
		equal(t, "events under v1.22", r.since(before), "MODIFIED p -45s grace=10 gen=0")
	})
}

// TestRecreated is TRC-24: an old pod's final delete does not touch the new one.
func TestRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		old := r.pod("p").UID
		r.ok(deletePod("p", grace(0)))
		renewed := r.pod("p")
		if renewed.UID == old {
			t.Fatal("the UID was used twice")
		}
		opts := grace(0)
		opts.Preconditions = &metav1.Preconditions{UID: &old}
		r.refused(deletePod("p", opts), 409, `Operation cannot be fulfilled on Pod "p": the UID in the precondition (`+string(old)+
			`) does not match the UID in record (`+string(renewed.UID)+`). The object might have been deleted and then recreated`)
	})
}

// TestRecreatedElsewhere has the new pod on another node: the old one's kubelet is told that
// it means another pod, and not that it may not delete this one (API-07, API-60).
func TestRecreatedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		renewed := r.pod("p")
		old := types.UID("old")
		final := deletePod("p", grace(0))
		final.as = "node:another-" + renewed.Spec.NodeName
		final.options.(*metav1.DeleteOptions).Preconditions = &metav1.Preconditions{UID: &old} //nolint:errcheck,forcetypeassert // ours
		r.refused(final, 409, `Operation cannot be fulfilled on Pod "p": the UID in the precondition (old) does not match the UID in record (`+
			string(renewed.UID)+`). The object might have been deleted and then recreated`)
	})
}

func revisionOf(t testing.TB, obj metav1.Object) int64 {
	t.Helper()
	return must(parseRevision(obj.GetResourceVersion()))
}
