package verbs_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
)

func evict(pod string, change ...func(*policyv1.Eviction)) call {
	body := &policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "default"},
	}
	for _, c := range change {
		c(body)
	}
	return call{verb: proto.VerbCreate, name: pod, sub: "eviction", body: body}
}

func guarded(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

// ready makes a pod run and be ready.
func (r *rig) ready(name string) {
	r.t.Helper()
	pod := r.get(name).DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	r.ok(call{verb: proto.VerbUpdate, name: name, sub: "status", body: pod})
}

func (r *rig) budget(name string) *policyv1.PodDisruptionBudget {
	record := r.store.Snapshot().Get(store.Key{Resource: "poddisruptionbudgets.policy", Namespace: "default", Name: name})
	budget, _ := record.Object.(*policyv1.PodDisruptionBudget)
	return budget
}

// allow makes a budget over app=web that allows n disruptions.
func (r *rig) allow(name string, n int32) {
	r.t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	r.ok(call{verb: proto.VerbCreate, resource: "poddisruptionbudgets.policy", body: budget})
	budget = r.budget(name).DeepCopy()
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: n, DesiredHealthy: 2, CurrentHealthy: 2 + n}
	r.ok(call{verb: proto.VerbUpdate, resource: "poddisruptionbudgets.policy", name: name, sub: "status", body: budget})
}

const violates = "Cannot evict pod as it would violate the pod's disruption budget."

func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.allow("one", 1)
		for _, name := range []string{"a", "b", "free"} {
			r.pod(name, guarded)
			r.ready(name)
		}
		before := r.revision()
		got := r.ok(evict("a"))
		if got.code != 201 || got.status == nil || got.status.Status != metav1.StatusSuccess {
			t.Errorf("%d %+v", got.code, got.status)
		}
		// TRC-17: the budget, the condition, the mark.
		equal(t, "events", r.since(before), "MODIFIED one gen=1\nMODIFIED a gen=1\nMODIFIED a +30s grace=30 gen=2")
		status := r.budget("one").Status
		if _, listed := status.DisruptedPods["a"]; status.DisruptionsAllowed != 0 || !listed {
			t.Errorf("%+v", status)
		}
		conditions := r.get("a").Status.Conditions
		if last := conditions[len(conditions)-1]; last.Type != corev1.DisruptionTarget || last.Reason != "EvictionByEvictionAPI" {
			t.Errorf("%+v", conditions)
		}
		r.refused(evict("b"), 429, violates)
		r.ok(evict("a")) // it is being deleted already (API-83)
		r.refused(evict("nothing"), 404, `pods "nothing" not found`)
		r.refused(evict("b", func(e *policyv1.Eviction) { e.Name = "other" }), 400, "name in URL does not match name in Eviction object")
		r.refused(evict("b", func(e *policyv1.Eviction) { e.Namespace = "other" }), 400, "the namespace of the provided object does not match the namespace sent on the request")
		r.phase("b", corev1.PodFailed)
		before = r.revision()
		r.ok(evict("b")) // finished: no budget, no grace
		equal(t, "events", r.since(before), "MODIFIED b gen=1\nMODIFIED b +0s grace=0 gen=2\nDELETED b +0s grace=0 gen=2")
		r.allow("two", 1)
		r.refused(evict("free"), 500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
		r.ok(deletePod("free", nil)) // API-88
	})
}

func TestEvictOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.allow("one", 2)
		for _, name := range []string{"a", "b"} {
			r.pod(name, guarded)
			r.ready(name)
		}
		with := func(o metav1.DeleteOptions) func(*policyv1.Eviction) {
			return func(e *policyv1.Eviction) { e.DeleteOptions = &o }
		}
		before := r.revision()
		r.ok(evict("a", with(metav1.DeleteOptions{DryRun: []string{"All"}})))
		dry := evict("a")
		dry.options = &metav1.CreateOptions{DryRun: []string{"All"}}
		r.ok(dry)
		dryStale := with(metav1.DeleteOptions{DryRun: []string{"All"}, Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}})
		if got := r.do(evict("a", dryStale)); got.code != 409 {
			t.Errorf("a dry run with a failed precondition: %d %s", got.code, got.message())
		}
		if r.revision() != before {
			t.Error("a dry run wrote: " + r.since(before))
		}
		// A failed precondition is noticed after the budget is spent, as upstream does it.
		stale := with(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}})
		if got := r.do(evict("a", stale)); got.code != 409 || !strings.Contains(got.message(), `Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (1)`) {
			t.Errorf("%d %s", got.code, got.message())
		}
		if left := r.budget("one").Status.DisruptionsAllowed; left != 1 {
			t.Errorf("%d left", left)
		}
		before = r.revision()
		r.ok(evict("b", with(metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})))
		equal(t, "events", r.since(before), "MODIFIED one gen=1\nMODIFIED b gen=1\nMODIFIED b +0s grace=0 gen=2\nDELETED b +0s grace=0 gen=2")
	})
}

// TestEvictOnce: an operation that comes again spends nothing again.
func TestEvictOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.allow("one", 2)
		r.pod("a", guarded)
		r.ready("a")
		once := evict("a")
		once.operation = "op"
		r.ok(once)
		before := r.revision()
		if got := r.ok(once); got.code != 201 || r.revision() != before {
			t.Errorf("%d: %s", got.code, r.since(before))
		}
	})
}

// TestEvictRace: of many evictions at once, as many pass as the budget allows.
func TestEvictRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.allow("one", 3)
		const pods = 10
		codes := make(chan int32, pods)
		for i := range pods {
			name := fmt.Sprint("p", i)
			r.pod(name, guarded)
			r.ready(name)
		}
		release := r.stall()
		for i := range pods {
			go func() { codes <- r.do(evict(fmt.Sprint("p", i))).code }()
		}
		synctest.Wait()
		release()
		count := map[int32]int{}
		for range pods {
			count[<-codes]++
		}
		if count[201] != 3 || count[429] != pods-3 {
			t.Errorf("%v", count)
		}
		if status := r.budget("one").Status; status.DisruptionsAllowed != 0 || len(status.DisruptedPods) != 3 {
			t.Errorf("%+v", status)
		}
	})
}

// TestEvictUnready: a pod that is not ready passes its budget only as it was looked at, and
// one that no budget counts is looked at again (API-83, API-85).
func TestEvictUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.allow("one", 0)
		for _, c := range []struct {
			name  string
			phase corev1.PodPhase
			code  int32
		}{{"running", corev1.PodRunning, 429}, {"pending", corev1.PodPending, 201}} {
			r.pod(c.name, guarded)
			r.phase(c.name, c.phase)
			changed := r.get(c.name).DeepCopy()
			changed.Status.Message = "changed"
			release := r.stall()
			done, evicted := make(chan result), make(chan result)
			go func() { done <- r.do(call{verb: proto.VerbUpdate, name: c.name, sub: "status", body: changed}) }()
			synctest.Wait()
			go func() { evicted <- r.do(evict(c.name)) }()
			synctest.Wait()
			release()
			<-done
			got := <-evicted
			if got.code != c.code {
				t.Errorf("%s: %d %s", c.name, got.code, got.message())
			}
			if c.code == 429 && (got.status.Details.RetryAfterSeconds != 10 ||
				got.status.Details.Causes[0].Message != "The disruption budget one is still being processed by the server.") {
				t.Errorf("%s: %+v", c.name, got.status)
			}
		}
		r.ok(evict("running"))
		if left := r.budget("one").Status; left.DisruptionsAllowed != 0 || len(left.DisruptedPods) > 0 {
			t.Errorf("%+v", left)
		}
	})
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}},
			},
		},
	}
}

func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.ok(call{verb: proto.VerbCreate, resource: "deployments.apps", body: deployment("d")})
		on := func(verb proto.Verb, body any) call {
			return call{verb: verb, resource: "deployments.apps", name: "d", sub: "scale", body: body}
		}
		scale, ok := r.ok(on(proto.VerbGet, nil)).obj.(*autoscalingv1.Scale)
		if !ok || scale.Spec.Replicas != 1 || scale.Status.Selector != "app=d" || scale.UID == "" || scale.ResourceVersion == "" {
			t.Fatalf("%+v", scale)
		}
		scale.Spec.Replicas = 4
		scale, _ = r.ok(on(proto.VerbUpdate, scale)).obj.(*autoscalingv1.Scale)
		if scale.Spec.Replicas != 4 {
			t.Errorf("%+v", scale)
		}
		patch := on(proto.VerbPatch, `{"spec":{"replicas":7}}`)
		patch.contentType = "application/merge-patch+json"
		scale, _ = r.ok(patch).obj.(*autoscalingv1.Scale)
		obj, _ := r.ok(call{verb: proto.VerbGet, resource: "deployments.apps", name: "d"}).obj.(*appsv1.Deployment)
		if scale.Spec.Replicas != 7 || *obj.Spec.Replicas != 7 || obj.Generation != 3 {
			t.Errorf("%+v %d %d", scale.Spec, *obj.Spec.Replicas, obj.Generation)
		}
		bad := scale.DeepCopy()
		bad.Spec.Replicas = -1
		r.refused(on(proto.VerbUpdate, bad), 422, `Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0`)
		stale := scale.DeepCopy()
		stale.ResourceVersion = "1"
		r.refused(on(proto.VerbUpdate, stale), 409, `Operation cannot be fulfilled on deployments.apps "d": the object has been modified; please apply your changes to the latest version and try again`)
	})
}

func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		account := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
		r.ok(call{verb: proto.VerbCreate, resource: "serviceaccounts", body: account})
		on := func(name, body string) call {
			return call{verb: proto.VerbCreate, resource: "serviceaccounts", name: name, sub: "token", contentType: "application/json", body: body}
		}
		const head = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"`
		got, ok := r.ok(on("robot", head+`}`)).obj.(*authenticationv1.TokenRequest)
		if !ok || strings.Count(got.Status.Token, ".") != 2 || *got.Spec.ExpirationSeconds != 3600 {
			t.Errorf("%+v", got)
		}
		r.refused(on("robot", head+`,"spec":{"expirationSeconds":5}}`), 422, `TokenRequest.authentication.k8s.io "robot" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes`)
		r.refused(on("nobody", head+`}`), 404, `serviceaccounts "nobody" not found`)
	})
}

func TestEphemeralContainersAndResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pod("x")
		patch := func(sub, body string) call {
			return call{verb: proto.VerbPatch, name: "x", sub: sub, contentType: "application/strategic-merge-patch+json", body: body}
		}
		r.ok(patch("ephemeralcontainers", `{"metadata":{"labels":{"a":"b"}},"spec":{"ephemeralContainers":[{"name":"debug","image":"busybox"}]}}`))
		pod := r.get("x")
		if len(pod.Spec.EphemeralContainers) != 1 || pod.Spec.EphemeralContainers[0].ImagePullPolicy != corev1.PullAlways || pod.Labels != nil || pod.Generation != 2 {
			t.Errorf("%+v", pod)
		}
		r.refused(patch("ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"other","image":"b","ports":[{"containerPort":80}]}]}}`), 422,
			`Pod "x" is invalid: spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container`)
		r.refused(patch("resize", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"memory":"1Gi"}}}]}}`), 422,
			`Pod "x" is invalid: spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing`)
		r.pod("y", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		})
		grow := patch("resize", `{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"n2","containers":[{"name":"main","image":"other","resources":{"requests":{"memory":"2Gi"}}}]}}`)
		grow.name = "y"
		r.ok(grow)
		pod = r.get("y")
		if c := pod.Spec.Containers[0]; c.Resources.Requests.Memory().String() != "2Gi" || c.Image != "scripted" || pod.Spec.NodeName != "n1" || pod.Generation != 2 {
			t.Errorf("%+v", pod)
		}
		disk := patch("resize", `{"spec":{"containers":[{"name":"main","resources":{"requests":{"ephemeral-storage":"2Gi"}}}]}}`)
		disk.name = "y"
		r.refused(disk, 422, `Pod "y" is invalid: spec: Forbidden: only cpu and memory resources are mutable`)
	})
}
