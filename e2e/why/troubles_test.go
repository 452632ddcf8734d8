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

// trouble is an injected cause, and how to inject it.
type trouble struct {
	id      string
	options []podfalltest.Option
	// prepare runs before the pod is created, before runs before the pod is deleted, and after runs
	// after the deletion.
	prepare, before, after func(*round)
	// mend undoes before; nil if the trouble stays.
	mend func(*round)
	// delete deletes the pod, if the test is not to.
	delete func(*round)
	// starting means that the pod never gets to run.
	starting bool
	// askAfter is how long after the deletion the test asks why; 0 is ten seconds after the grace
	// period.
	askAfter time.Duration
}

func withScript(script string) func(*round) {
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

// nodeFault breaks a step of the pod's node until the trouble is mended.
func nodeFault(id string, point podfalltest.FaultPoint, effect podfalltest.FaultEffect) trouble {
	return trouble{
		id: id, before: func(r *round) { r.fault(point, podfalltest.FaultAbout{}, effect) },
		mend: func(r *round) { r.ClearFault("f") },
	}
}

func effectOf(k podfalltest.FaultKind) podfalltest.FaultEffect {
	return podfalltest.FaultEffect{Kind: k}
}

func withFinalizer(name string) func(*round) {
	return func(r *round) { r.pod.Finalizers = append(r.pod.Finalizers, name) }
}

func withoutController(controller string) []podfalltest.Option {
	return []podfalltest.Option{podfalltest.Controllers("*", "-"+controller)}
}

// finalizerTroubles returns the troubles of the owners of finalizers.
func finalizerTroubles() []trouble {
	return []trouble{
		{id: "stk-01", prepare: withFinalizer("example.com/x")},
		{id: "stk-03", options: withoutController("garbage-collector-controller"), prepare: withFinalizer("orphan")},
		{id: "stk-04", options: withoutController("job-controller"), prepare: withFinalizer("batch.kubernetes.io/job-tracking")},
	}
}

// nodeTroubles returns the troubles of the pod's node, and of what the node needs.
func nodeTroubles() []trouble {
	unauthorised := podfalltest.FaultEffect{Kind: "error", Code: "401", Message: "Unauthorized"}
	busy := podfalltest.FaultEffect{Kind: "error", Message: "device or resource busy"}
	heal := func(r *round) { r.Heal("node-1") }
	return []trouble{
		{id: "stk-05", before: func(r *round) { r.Crash("kubelet/node-1") }, mend: func(r *round) { r.Restart("kubelet/node-1") }},
		{id: "stk-06", before: func(r *round) { r.Cut("node-1") }, mend: heal},
		{id: "stk-06", before: func(r *round) { r.Cut("node-1", podfalltest.ToNode) }, mend: heal},
		{id: "stk-07", before: func(r *round) { r.Cut("node-1", podfalltest.FromNode) }, mend: heal, prepare: withScript("on TERM exits 0 after 100ms")},
		{id: "stk-09", before: func(r *round) { r.Crash("runtime/node-1") }, mend: func(r *round) { r.Restart("runtime/node-1") }},
		{id: "stk-11", prepare: withScript("stop hangs")},
		nodeFault("stk-11", "cri.StopContainer", effectOf("hang")),
		{id: "stk-12", prepare: withScript("ignores TERM, survives KILL")},
		nodeFault("stk-13", "cri.Stop*", effectOf("lie")),
		nodeFault("stk-14", "cri.StopPodSandbox", podfalltest.FaultEffect{Kind: "error", Code: "Unknown", Message: "failed to destroy network for sandbox"}),
		nodeFault("stk-14", "cri.StopPodSandbox", effectOf("hang")),
		nodeFault("stk-15", "volume.unmount", effectOf("error")),
		nodeFault("stk-15", "volume.unmount", effectOf("hang")),
		nodeFault("stk-17", "volume.remove-dir", effectOf("error")),
		nodeFault("stk-17", "volume.remove-dir", effectOf("hang")),
		nodeFault("stk-18", "cgroup.destroy", busy),
		nodeFault("stk-18", "cgroup.destroy", effectOf("hang")),
		{
			id: "stk-24", mend: func(r *round) { r.ClearFault("f") },
			before: func(r *round) { r.fault("api.request", podfalltest.FaultAbout{Client: "node:node-1"}, unauthorised) },
		},
		{id: "stk-33", mend: func(r *round) { // what was dropped does not come again: the kubelet has to list
			r.ClearFault("f")
			r.Crash("kubelet/node-1")
			r.Restart("kubelet/node-1")
		}, before: func(r *round) {
			r.fault("watch.deliver", podfalltest.FaultAbout{Client: "node:node-1", Resource: "pods"}, effectOf("drop"))
		}},
	}
}

// otherTroubles returns the troubles that need more than a fault, or a pod of their own.
func otherTroubles() []trouble {
	return []trouble{
		{id: "stk-02", prepare: withFinalizer("example.com/x"), before: func(r *round) {
			r.addUnservedWebhook(admissionv1.Update, "!request.userInfo.username.startsWith('system:')")
		}, after: (*round).failFinalizerRemoval},
		{id: "stk-08", options: []podfalltest.Option{podfalltest.Nodes(2)}, prepare: func(r *round) {
			r.pod.Spec.NodeName = "node-1"
			r.pod.Spec.Tolerations = []corev1.Toleration{
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(r.grace)},
			}
		}, before: func(r *round) { r.Cut("node-1") }, delete: func(r *round) {
			r.waitUntil("the pod is evicted", func() bool { pod := r.getPod(); return pod != nil && pod.DeletionTimestamp != nil })
		}},
		{id: "stk-10", before: func(r *round) {
			r.fault("cri.ListContainers", podfalltest.FaultAbout{}, effectOf("hang"))
			time.Sleep(4 * time.Minute)
		}},
		{id: "stk-16", before: func(r *round) {
			r.fault("volume.mount", podfalltest.FaultAbout{Pod: "web"}, effectOf("duplicate"))
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
		{id: "stk-20", prepare: func(r *round) { r.grace += 200; withScript("ignores TERM")(r) }, askAfter: time.Minute},
		{id: "stk-21", prepare: func(r *round) { r.grace += 200; withScript("ignores TERM")(r) }, after: func(r *round) {
			time.Sleep(2*time.Second + r.upTo(20*time.Second))
			r.deleteWithGrace(1 + r.rand.Int64N(20))
		}, askAfter: 35 * time.Second},
		{id: "stk-22", starting: true, prepare: func(r *round) { r.fault("image.pull", podfalltest.FaultAbout{}, effectOf("hang")) }},
		{id: "stk-23", before: func(r *round) {
			r.addUnservedWebhook(admissionv1.Delete, "request.userInfo.username.startsWith('system:node:')")
		}},
		{id: "stk-25", options: withoutController("pod-garbage-collector-controller"), before: func(r *round) {
			r.Crash("kubelet/node-1")
			if err := r.client.CoreV1().Nodes().Delete(r.t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}},
		{id: "stk-26", prepare: func(r *round) { r.grace += 15; withScript("ignores TERM")(r) }, after: func(r *round) {
			for range 3 {
				time.Sleep(time.Duration(r.grace) * time.Second * 2 / 3)
				r.Crash("kubelet/node-1")
				r.Restart("kubelet/node-1")
			}
		}, askAfter: time.Nanosecond},
		{id: "stk-27", after: func(r *round) { r.fault("store.commit", podfalltest.FaultAbout{}, effectOf("hang")) }, prepare: withScript("on TERM exits 0 after 500ms")},
		{id: "stk-28", prepare: func(r *round) {
			r.grace += 40
			r.annotate("proxy", "ignores TERM")
			r.pod.Spec.InitContainers = []corev1.Container{{Name: "proxy", Image: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		}, askAfter: 25 * time.Second},
		{id: "stk-32", delete: func(r *round) {
			r.fault("volume.unmount", podfalltest.FaultAbout{}, effectOf("error"))
			r.deleteWithGrace(0)
		}},
	}
}

// addUnservedWebhook adds a webhook without a server for one kind of request of one user.
func (r *round) addUnservedWebhook(operation admissionv1.OperationType, who string) {
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

// failFinalizerRemoval acts as the finalizer's owner once the node has done its work.
func (r *round) failFinalizerRemoval() {
	r.waitUntil("the node has done its work", func() bool {
		pod := r.getPod()
		return pod != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	})
	_, err := r.client.CoreV1().Pods("default").Patch(r.t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		r.t.Fatal("the owner was let in")
	}
}

// getPod returns the pod; nil if it is gone.
func (r *round) getPod() *corev1.Pod {
	pod, err := r.client.CoreV1().Pods("default").Get(r.t.Context(), "web", metav1.GetOptions{})
	if apierrors.ReasonForError(err) == metav1.StatusReasonNotFound || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil && apierrors.ReasonForError(err) != metav1.StatusReason(http.StatusText(http.StatusGatewayTimeout)) {
		r.t.Fatal(err)
	}
	return pod
}

// deleteWithGrace deletes the pod with another grace period than its own.
func (r *round) deleteWithGrace(grace int64) {
	if err := r.client.CoreV1().Pods("default").Delete(r.t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		r.t.Fatal(err)
	}
}
