package verbs_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// TestLimitRange is API-91: a stored LimitRange completes pods before their quality of service is
// decided, and bounds what is created and resized in its namespace only.
func TestLimitRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(cfg *verbs.Config, _ *store.Config) { cfg.Plugins = []string{admission.LimitRanger} })
		r.ok(call{verb: proto.VerbCreate, resource: "limitranges", contentType: "application/json", body: `{"apiVersion":"v1","kind":"LimitRange",
			"metadata":{"name":"usual"},"spec":{"limits":[{"type":"Container","min":{"cpu":"100m"},"max":{"cpu":"1","memory":"1Gi"}}]}}`})
		with := func(cpu string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			}
		}
		r.ok(call{verb: proto.VerbCreate, body: podNamed("a")})
		pod := r.get("a")
		if c := pod.Spec.Containers[0].Resources; c.Limits.Cpu().String() != "1" || c.Requests.Memory().String() != "1Gi" || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
			t.Errorf("the pod has %v and is %s", c, pod.Status.QOSClass)
		}
		r.refused(call{verb: proto.VerbCreate, body: podNamed("b", with("2"))}, 403,
			`pods "b" is forbidden: maximum cpu usage per Container is 1, but limit is 2`)
		r.ok(call{verb: proto.VerbCreate, namespace: "kube-public", body: podNamed("b", with("2"), func(p *corev1.Pod) { p.Namespace = "" })})
		resize := call{
			verb: proto.VerbPatch, name: "a", sub: "resize", contentType: "application/strategic-merge-patch+json",
			body: `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"50m"},"limits":{"cpu":"50m"}}}]}}`,
		}
		r.refused(resize, 403, `pods "a" is forbidden: minimum cpu usage per Container is 100m, but request is 50m`)
	})
}
