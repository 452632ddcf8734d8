package verbs_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

func TestCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		before := r.revision()
		got := r.ok(call{verb: proto.VerbCreate, body: podNamed("p", func(p *corev1.Pod) {
			p.UID, p.Generation = "mine", 100
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(5))
		})})
		if got.code != 201 || got.obj.GetUID() == "mine" || got.obj.GetUID() == "" || got.obj.GetCreationTimestamp().Unix() < 0 {
			t.Errorf("%d %+v", got.code, got.obj)
		}
		equal(t, "what the server keeps is the server's (API-56, API-57)", r.since(before), "ADDED p gen=1")
		if have := revisionOf(t, got.obj); have != r.revision() {
			t.Errorf("revision %d, want %d", have, r.revision())
		}

		r.refused(call{verb: proto.VerbCreate, body: podNamed("p")}, 409, `pods "p" already exists`) // API-67
		r.ok(deletePod("p", grace(30)))
		r.refused(call{verb: proto.VerbCreate, body: podNamed("p")}, 409, `object is being deleted: pods "p" already exists`)
		r.ok(deletePod("p", grace(0)))
		r.pod("p")
	})
}

func TestCreateRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.refused(call{verb: proto.VerbCreate, namespace: "nowhere", body: podNamed("p", func(p *corev1.Pod) { p.Namespace = "" })},
			404, `namespaces "nowhere" not found`)
		r.refused(call{verb: proto.VerbCreate, namespace: "kube-system", body: podNamed("p")},
			400, "the namespace of the provided object does not match the namespace sent on the request")
		r.refused(call{verb: proto.VerbCreate, body: podNamed("p"), options: &metav1.CreateOptions{DryRun: []string{"Some"}}},
			422, `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`)
		r.refused(call{verb: proto.VerbCreate, as: "node:n2", body: podNamed("p")},
			403, `pods "p" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, node "n2" can only create mirror pods`)
		got := r.do(call{verb: proto.VerbCreate, contentType: "application/json", body: `{"kind":"Pod"`})
		if got.code != 400 {
			t.Errorf("half an object: %d %s", got.code, got.message())
		}
	})
}

func TestCreateDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		before := r.revision()
		dry := &metav1.CreateOptions{DryRun: []string{"All"}}
		got := r.ok(call{verb: proto.VerbCreate, body: podNamed("p"), options: dry})
		if got.code != 201 || got.obj.GetResourceVersion() != "" || got.obj.GetUID() == "" || r.revision() != before {
			t.Errorf("%d %+v", got.code, got.obj)
		}
		r.pod("p")
		r.refused(call{verb: proto.VerbCreate, body: podNamed("p"), options: dry}, 409, `pods "p" already exists`)
	})
}

func TestGenerateName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		generated := func(r *rig) result {
			return r.do(call{verb: proto.VerbCreate, body: podNamed("", func(p *corev1.Pod) { p.GenerateName = "web-" })})
		}
		r := newRig(t)
		one, two := generated(r).obj.GetName(), generated(r).obj.GetName()
		if !strings.HasPrefix(one, "web-") || len(one) != len("web-")+5 || one == two {
			t.Errorf("names %q and %q", one, two)
		}
		// The same dice every time: the second create finds its name taken, and no other.
		r = newRig(t, func(cfg *verbs.Config, _ *store.Config) { cfg.Entropy = zeros{} })
		equal(t, "first", generated(r).obj.GetName(), "web-bbbbb")
		got := generated(r)
		equal(t, "second", got.message(),
			`pods "web-bbbbb" already exists, the server was not able to generate a unique name for the object`)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	return io.ReadFull(bytes.NewReader(make([]byte, len(p))), p)
}

func TestNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			r.ok(call{verb: proto.VerbGet, resource: "namespaces", name: name})
		}
		before := r.revision()
		if err := r.api.EnsureNamespaces(t.Context()); err != nil || r.revision() != before {
			t.Errorf("a second start: %v, revision %d after %d", err, r.revision(), before)
		}
		r.ok(call{verb: proto.VerbCreate, resource: "namespaces", body: &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		}})
		inShop := call{verb: proto.VerbCreate, namespace: "shop", body: podNamed("p", func(p *corev1.Pod) { p.Namespace = "shop" })}
		r.ok(inShop)
		got := r.ok(call{verb: proto.VerbDelete, resource: "namespaces", name: "shop", options: &metav1.DeleteOptions{}})
		shop, _ := got.obj.(*corev1.Namespace)
		if shop == nil || shop.Status.Phase != corev1.NamespaceTerminating || shop.DeletionTimestamp == nil {
			t.Fatalf("deleted: %+v", got.obj)
		}
		inShop.body = podNamed("q", func(p *corev1.Pod) { p.Namespace = "shop" })
		r.refused(inShop, 403,
			`pods "q" is forbidden: unable to create new content in namespace shop because it is being terminated`)
		if cause := r.do(inShop).status.Details.Causes; len(cause) != 1 || cause[0].Type != corev1.NamespaceTerminatingCause {
			t.Errorf("causes %+v", cause)
		}
		again := r.ok(call{verb: proto.VerbDelete, resource: "namespaces", name: "shop", options: &metav1.DeleteOptions{}})
		if again.obj == nil || again.obj.GetResourceVersion() != shop.ResourceVersion {
			t.Errorf("a second delete: %+v", again)
		}
		shop.Spec.Finalizers = nil
		r.ok(call{verb: proto.VerbUpdate, resource: "namespaces", name: "shop", sub: "finalize", body: shop})
		if got := r.do(call{verb: proto.VerbGet, resource: "namespaces", name: "shop"}); got.code != 404 {
			t.Errorf("after finalize: %d %+v", got.code, got.obj)
		}
	})
}
