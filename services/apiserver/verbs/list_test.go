package verbs_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

func list(opts metav1.ListOptions) call { return call{verb: proto.VerbList, options: &opts} }

func names(got result) string {
	var names []string
	for _, item := range got.items {
		names = append(names, item.GetName())
	}
	return strings.Join(names, " ")
}

func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 5 {
			r.pod(fmt.Sprintf("p%d", i), labelled(fmt.Sprint(i%2)), func(p *corev1.Pod) { p.Spec.NodeName = fmt.Sprintf("n%d", i%2) })
		}
		r.ok(call{verb: proto.VerbCreate, namespace: "kube-system", body: podNamed("a", func(p *corev1.Pod) { p.Namespace = "kube-system" })})
		rows := []struct{ opts, want string }{
			{"", "p0 p1 p2 p3 p4"},
			{"l=1", "p1 p3"},
			{"|spec.nodeName=n0", "p0 p2 p4"},
			{"|metadata.name=p3", "p3"},
			{"l=0|spec.nodeName=n1", ""},
		}
		for _, row := range rows {
			labels, fields, _ := strings.Cut(row.opts, "|")
			got := r.ok(list(metav1.ListOptions{LabelSelector: labels, FieldSelector: fields}))
			equal(t, row.opts, names(got), row.want)
			if int64(got.list.GetRevision()) != r.revision() {
				t.Errorf("list at %d, want %d", got.list.GetRevision(), r.revision())
			}
		}
		all := list(metav1.ListOptions{})
		all.namespace = "*"
		equal(t, "all namespaces", names(r.ok(all)), "p0 p1 p2 p3 p4 a")
		if item := r.ok(list(metav1.ListOptions{})).items[0]; item.GetResourceVersion() != r.get("p0").ResourceVersion {
			t.Errorf("an item is of revision %s, want its own, %s", item.GetResourceVersion(), r.get("p0").ResourceVersion)
		}
	})
}

func TestListPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 5 {
			r.pod(fmt.Sprintf("p%d", i), labelled("1"))
		}
		at := r.revision()
		one := r.ok(list(metav1.ListOptions{Limit: 2}))
		equal(t, "first page", names(one), "p0 p1")
		if one.list.GetRemaining() != 3 || one.list.GetContinue() == "" {
			t.Errorf("%v", one.list)
		}
		r.ok(deletePod("p3", grace(0)))
		r.pod("p22")
		two := r.ok(list(metav1.ListOptions{Limit: 2, Continue: one.list.GetContinue()}))
		equal(t, "second page, of the same revision", names(two), "p2 p3")
		if int64(two.list.GetRevision()) != at || two.list.GetRemaining() != 1 {
			t.Errorf("%v", two.list)
		}
		three := r.ok(list(metav1.ListOptions{Limit: 2, Continue: two.list.GetContinue()}))
		equal(t, "last page", names(three), "p4")
		if three.list.GetContinue() != "" {
			t.Error("the last page goes on")
		}
		selected := r.ok(list(metav1.ListOptions{Limit: 2, LabelSelector: "l=1"}))
		if selected.list.GetRemaining() != -1 || selected.list.GetContinue() == "" {
			t.Errorf("what remains of a selection is known: %v", selected.list)
		}
		r.refused(list(metav1.ListOptions{Continue: one.list.GetContinue(), ResourceVersion: "7"}), 400,
			"specifying resource version is not allowed when using continue") // WCH-04

		if err := r.store.Compact(t.Context(), r.revision()); err != nil {
			t.Fatal(err)
		}
		r.pod("p9")
		gone := r.do(list(metav1.ListOptions{Limit: 2, Continue: one.list.GetContinue()})) // WCH-05
		if gone.code != 410 || gone.status.Reason != metav1.StatusReasonExpired || gone.status.Continue == "" ||
			!strings.HasPrefix(gone.message(), "The provided continue parameter is too old to display a consistent list result. "+
				"You can start a new list without the continue parameter") {
			t.Fatalf("%d %+v", gone.code, gone.status)
		}
		rest := r.ok(list(metav1.ListOptions{Continue: gone.status.Continue}))
		equal(t, "the rest, as it is now", names(rest), "p2 p22 p4 p9")
		r.refused(list(metav1.ListOptions{ResourceVersion: fmt.Sprint(at), ResourceVersionMatch: metav1.ResourceVersionMatchExact}), 410,
			"The resourceVersion for the provided list is too old.") // WCH-06
	})
}

func TestListRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p0")
		at := r.revision()
		r.pod("p1")
		exact := metav1.ListOptions{ResourceVersion: fmt.Sprint(at), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		equal(t, "exact", names(r.ok(list(exact))), "p0")
		exact.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		equal(t, "not older than", names(r.ok(list(exact))), "p0 p1")
		equal(t, "any", names(r.ok(list(metav1.ListOptions{ResourceVersion: "0"}))), "p0 p1")
		equal(t, "a limit makes it exact, as of old", names(r.ok(list(metav1.ListOptions{ResourceVersion: fmt.Sprint(at), Limit: 9}))), "p0")

		// WCH-03
		began, future := time.Now(), r.revision()+10
		r.refused(list(metav1.ListOptions{ResourceVersion: fmt.Sprint(future)}), 504,
			fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", future, r.revision()))
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("waited %v, want 3 s", waited)
		}
		future = r.revision() + 1
		var writing sync.WaitGroup
		writing.Go(func() {
			time.Sleep(time.Second)
			r.pod("p2")
		})
		equal(t, "it comes in time", names(r.ok(list(metav1.ListOptions{ResourceVersion: fmt.Sprint(future)}))), "p0 p1 p2")
		writing.Wait()
		r.refused(list(metav1.ListOptions{LabelSelector: "!!"}), 400, r.do(list(metav1.ListOptions{LabelSelector: "!!"})).message())
	})
}

func TestListInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i := range 40 {
			r.pod(fmt.Sprintf("p%02d", i), func(p *corev1.Pod) { p.Annotations = map[string]string{"a": strings.Repeat("x", 4000)} })
		}
		got := r.ok(list(metav1.ListOptions{Limit: 39}))
		if len(got.items) != 39 || got.parts < 5 || got.parts > 8 || got.list.GetContinue() == "" {
			t.Errorf("%d items in %d parts", len(got.items), got.parts)
		}
	})
}

func TestGetWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p")
		r.ok(call{verb: proto.VerbGet, name: "p", options: &metav1.GetOptions{ResourceVersion: "0"}})
		r.refused(call{verb: proto.VerbGet, name: "p", options: &metav1.GetOptions{ResourceVersion: "999"}}, 504,
			fmt.Sprintf("Timeout: Too large resource version: 999, current: %d", r.revision()))
		r.refused(call{verb: proto.VerbGet, name: "p", options: &metav1.GetOptions{ResourceVersion: "x"}}, 400, `invalid resource version: "x"`)
	})
}

func TestDeleteCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("a", labelled("1"))
		r.pod("b", labelled("1"), held("x.y/z"))
		r.pod("c", labelled("2"))
		before := r.revision()
		all := func(list metav1.ListOptions) call {
			return call{verb: proto.VerbDeleteCollection, options: grace(0), list: &list}
		}
		got := r.ok(all(metav1.ListOptions{LabelSelector: "l=1"}))
		equal(t, "answer", names(got), "a b")
		if r.get("a") != nil || describe(r.get("b")) != "b +0s grace=0 gen=2 [x.y/z]" || r.get("c").DeletionTimestamp != nil {
			t.Errorf("events:\n%s", r.since(before))
		}
		r.refused(call{verb: proto.VerbDeleteCollection, options: &metav1.DeleteOptions{DryRun: []string{"Some"}}, list: &metav1.ListOptions{}}, 422,
			`DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`)
		equal(t, "paged", names(r.ok(all(metav1.ListOptions{Limit: 1}))), "b")
		for i := range 200 {
			r.pod(fmt.Sprintf("p%d", i))
		}
		got = r.ok(call{verb: proto.VerbDeleteCollection, options: grace(0), list: &metav1.ListOptions{}})
		if n := r.store.Snapshot().Count("pods", "default"); n != 1 || len(got.items) != 202 {
			t.Errorf("%d pods are left of %d", n, len(got.items))
		}
	})
}

func TestDeleteCollectionSparesSuccessors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		renewed := r.pod("p").DeepCopy()
		renewed.UID, renewed.ResourceVersion = "renewed", ""
		key := store.Key{Resource: "pods", Namespace: "default", Name: "p"}
		release := r.stall()
		done := make(chan error)
		go func() {
			_, err := r.store.Commit(t.Context(), store.Commit{Writes: []store.Write{
				{Key: key, Expect: store.Any}, {Key: key, Expect: store.Previous, Object: renewed},
			}})
			done <- err
		}()
		synctest.Wait()
		late := make(chan result)
		go func() {
			late <- r.do(call{verb: proto.VerbDeleteCollection, options: grace(0), list: &metav1.ListOptions{}})
		}()
		synctest.Wait()
		release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := <-late; got.code != 200 || r.get("p") == nil {
			t.Errorf("%d %s; what is left: %v", got.code, got.message(), r.get("p"))
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("p")
		open := func(sub string, opts metav1.ListOptions) call {
			return call{verb: proto.VerbWatch, sub: sub, options: &opts}
		}
		r.refused(open("", metav1.ListOptions{SendInitialEvents: new(true)}), 422, `ListOptions.meta.k8s.io "" is invalid: `+
			`resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`)
		r.refused(open("", metav1.ListOptions{FieldSelector: "spec.hat=red"}), 400, `field label not supported: spec.hat`)
		r.refused(open(proto.SubresourceRenew, metav1.ListOptions{}), 404, `pods "the group of this watch" not found`)
		if got := r.ok(open("", metav1.ListOptions{})); got.parts == 0 {
			t.Error("no parts")
		}
		r.ok(open(proto.SubresourceRenew, metav1.ListOptions{}))
	})
}
