package why_test

import (
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/podfalltest"
)

// trouble is a cause, and how it is brought about.
type trouble struct {
	id      string
	options []podfalltest.Option
	// prepare is done before the pod is made, before before it is deleted, and after then.
	prepare, before, after func(*round)
	// mend undoes what before has done; nil for what is not mended here.
	mend func(*round)
	// deleted is who deletes the pod if the test does not.
	deleted func(*round)
	// starting says that the pod does not get to run.
	starting bool
	// asked is how long after the deletion why is asked; 0 is ten seconds after the grace.
	asked time.Duration
}

func scripted(script string) func(*round) {
	return func(r *round) { r.annotate("main", script) }
}

func (r *round) annotate(container, script string) {
	if r.pod.Annotations == nil {
		r.pod.Annotations = map[string]string{}
	}
	r.pod.Annotations["script.podfall.io/"+container] = script
}

func (r *round) fault(point podfalltest.FaultPoint, where podfalltest.FaultAbout, effect podfalltest.FaultEffect) {
	r.AddFault("f", podfalltest.FaultSpec{Point: point, Where: where, Effect: effect})
}

// failing breaks a step of the pod's node until it is mended.
func failing(id string, point podfalltest.FaultPoint, effect podfalltest.FaultEffect) trouble {
	return trouble{
		id: id, before: func(r *round) { r.fault(point, podfalltest.FaultAbout{}, effect) },
		mend: func(r *round) { r.ClearFault("f") },
	}
}

func kind(k podfalltest.FaultKind) podfalltest.FaultEffect { return podfalltest.FaultEffect{Kind: k} }

func finalizer(name string) func(*round) {
	return func(r *round) { r.pod.Finalizers = append(r.pod.Finalizers, name) }
}

func without(controller string) []podfalltest.Option {
	return []podfalltest.Option{podfalltest.Controllers("*", "-"+controller)}
}

// ownersTroubles are those of whoever has set a finalizer.
func ownersTroubles() []trouble {
	return []trouble{
		{id: "stk-01", prepare: finalizer("example.com/x")},
		{id: "stk-03", options: without("garbage-collector-controller"), prepare: finalizer("orphan")},
		{id: "stk-04", options: without("job-controller"), prepare: finalizer("batch.kubernetes.io/job-tracking")},
	}
}

// nodesTroubles are those that the pod's node has, and whoever it needs.
func nodesTroubles() []trouble {
	unauthorised := podfalltest.FaultEffect{Kind: "error", Code: "401", Message: "Unauthorized"}
	busy := podfalltest.FaultEffect{Kind: "error", Message: "device or resource busy"}
	heal := func(r *round) { r.Heal("node-1") }
	return []trouble{
		{id: "stk-05", before: func(r *round) { r.Crash("kubelet/node-1") }, mend: func(r *round) { r.Restart("kubelet/node-1") }},
		{id: "stk-06", before: func(r *round) { r.Cut("node-1") }, mend: heal},
		{id: "stk-06", before: func(r *round) { r.Cut("node-1", podfalltest.ToNode) }, mend: heal},
		{id: "stk-07", before: func(r *round) { r.Cut("node-1", podfalltest.FromNode) }, mend: heal, prepare: scripted("on TERM exits 0 after 100ms")},
		{id: "stk-09", before: func(r *round) { r.Crash("runtime/node-1") }, mend: func(r *round) { r.Restart("runtime/node-1") }},
		{id: "stk-11", prepare: scripted("stop hangs")},
		failing("stk-11", "cri.StopContainer", kind("hang")),
		{id: "stk-12", prepare: scripted("ignores TERM, survives KILL")},
		failing("stk-13", "cri.Stop*", kind("lie")),
		failing("stk-14", "cri.StopPodSandbox", podfalltest.FaultEffect{Kind: "error", Code: "Unknown", Message: "failed to destroy network for sandbox"}),
		failing("stk-14", "cri.StopPodSandbox", kind("hang")),
		failing("stk-15", "volume.unmount", kind("error")),
		failing("stk-15", "volume.unmount", kind("hang")),
		failing("stk-17", "volume.remove-dir", kind("error")),
		failing("stk-17", "volume.remove-dir", kind("hang")),
		failing("stk-18", "cgroup.destroy", busy),
		failing("stk-18", "cgroup.destroy", kind("hang")),
		{
			id: "stk-24", mend: func(r *round) { r.ClearFault("f") },
			before: func(r *round) { r.fault("api.request", podfalltest.FaultAbout{Client: "node:node-1"}, unauthorised) },
		},
		{id: "stk-33", mend: func(r *round) { // what was dropped does not come again: the kubelet has to list
			r.ClearFault("f")
			r.Crash("kubelet/node-1")
			r.Restart("kubelet/node-1")
		}, before: func(r *round) {
			r.fault("watch.deliver", podfalltest.FaultAbout{Client: "node:node-1", Resource: "pods"}, kind("drop"))
		}},
	}
}

// peculiarTroubles need more than a fault, or a pod of their own.
func peculiarTroubles() []trouble {
	return []trouble{
		{id: "stk-02", prepare: finalizer("example.com/x"), before: func(r *round) {
			r.guard(admissionv1.Update, "!request.userInfo.username.startsWith('system:')")
		}, after: (*round).triesInVain},
		{id: "stk-08", options: []podfalltest.Option{podfalltest.Nodes(2)}, prepare: func(r *round) {
			r.pod.Spec.NodeName = "node-1"
			r.pod.Spec.Tolerations = []corev1.Toleration{
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(r.grace)},
			}
		}, before: func(r *round) { r.Cut("node-1") }, deleted: func(r *round) {
			r.until("the pod is evicted", func() bool { pod := r.look(); return pod != nil && pod.DeletionTimestamp != nil })
		}},
		{id: "stk-10", before: func(r *round) {
			r.fault("cri.ListContainers", podfalltest.FaultAbout{}, kind("hang"))
			time.Sleep(4 * time.Minute)
		}},
		{id: "stk-16", before: func(r *round) {
			r.fault("volume.mount", podfalltest.FaultAbout{Pod: "web"}, kind("duplicate"))
			r.Crash("kubelet/node-1")
			r.Restart("kubelet/node-1")
			time.Sleep(10 * time.Second)
		}},
		{id: "stk-19", prepare: func(r *round) {
			r.pod.Spec.NodeName = "node-1"
			r.pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: new("device")}}
		}, before: func(r *round) {
			r.fault("claim.unprepare", podfalltest.FaultAbout{}, podfalltest.FaultEffect{Kind: "error", Message: "the device is busy"})
		}},
		{id: "stk-20", prepare: func(r *round) { r.grace += 200; scripted("ignores TERM")(r) }, asked: time.Minute},
		{id: "stk-21", prepare: func(r *round) { r.grace += 200; scripted("ignores TERM")(r) }, after: func(r *round) {
			time.Sleep(2*time.Second + r.upTo(20*time.Second))
			r.deleteWithin(1 + r.rand.Int64N(20))
		}, asked: 35 * time.Second},
		{id: "stk-22", starting: true, prepare: func(r *round) { r.fault("image.pull", podfalltest.FaultAbout{}, kind("hang")) }},
		{id: "stk-23", before: func(r *round) { r.guard(admissionv1.Delete, "request.userInfo.username.startsWith('system:node:')") }},
		{id: "stk-25", options: without("pod-garbage-collector-controller"), before: func(r *round) {
			r.Crash("kubelet/node-1")
			if err := r.client.CoreV1().Nodes().Delete(r.t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}},
		{id: "stk-26", prepare: func(r *round) { r.grace += 15; scripted("ignores TERM")(r) }, after: func(r *round) {
			for range 3 {
				time.Sleep(time.Duration(r.grace) * time.Second * 2 / 3)
				r.Crash("kubelet/node-1")
				r.Restart("kubelet/node-1")
			}
		}, asked: time.Nanosecond},
		{id: "stk-27", after: func(r *round) { r.fault("store.commit", podfalltest.FaultAbout{}, kind("hang")) }, prepare: scripted("on TERM exits 0 after 500ms")},
		{id: "stk-28", prepare: func(r *round) {
			r.grace += 40
			r.annotate("proxy", "ignores TERM")
			r.pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", Image: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		}, asked: 25 * time.Second},
		{id: "stk-32", deleted: func(r *round) {
			r.fault("volume.unmount", podfalltest.FaultAbout{}, kind("error"))
			r.deleteWithin(0)
		}},
	}
}

// guard has a webhook that nobody serves asked about what some do with pods.
func (r *round) guard(operation admissionv1.OperationType, who string) {
	fail, none, url := admissionv1.Fail, admissionv1.SideEffectClassNone, "https://127.0.0.1:1/guard"
	configuration := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "guard.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: new(int32(1)),
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{operation},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "who", Expression: who}},
		}},
	}
	if _, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(r.t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// triesInVain is what the owner of a finalizer does once the node has done its work.
func (r *round) triesInVain() {
	r.until("the node has done its work", func() bool {
		pod := r.look()
		return pod != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	})
	_, err := r.client.CoreV1().Pods("default").Patch(r.t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		r.t.Fatal("the owner was let in")
	}
}

// look is the pod; nil when it has gone.
func (r *round) look() *corev1.Pod {
	pod, err := r.client.CoreV1().Pods("default").Get(r.t.Context(), "web", metav1.GetOptions{})
	if apierrors.ReasonForError(err) == metav1.StatusReasonNotFound || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil && apierrors.ReasonForError(err) != metav1.StatusReason(http.StatusText(http.StatusGatewayTimeout)) {
		r.t.Fatal(err)
	}
	return pod
}

// deleteWithin deletes the pod with another grace than its own.
func (r *round) deleteWithin(grace int64) {
	if err := r.client.CoreV1().Pods("default").Delete(r.t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		r.t.Fatal(err)
	}
}
