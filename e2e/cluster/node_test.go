package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// healthCluster configures a cluster with node health controllers.
func healthCluster() stage.Config {
	return stage.Config{
		Controllers: []string{"scheduler", "nodelifecycle", "podgc", "tainteviction"},
		Plugins:     []string{"DefaultTolerationSeconds"},
	}
}

// describeNode describes a node's readiness and taints.
func describeNode(obj kinds.Object, kind watch.EventType) string {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Name != "node-1" {
		return ""
	}
	if kind == watch.Deleted {
		return "node " + node.Name + " is gone"
	}
	text := "node " + node.Name
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			text += fmt.Sprintf(" Ready=%s %s", c.Status, c.Reason)
		}
	}
	for _, taint := range node.Spec.Taints {
		text += " " + strings.TrimPrefix(taint.Key, "node.kubernetes.io/") + ":" + string(taint.Effect)
	}
	return text
}

// describePod describes a pod's conditions and deletion.
func describePod(obj kinds.Object, kind watch.EventType) string {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return ""
	}
	if kind == watch.Deleted {
		return "pod " + pod.Name + " is gone"
	}
	text := "pod " + pod.Name + " " + string(pod.Status.Phase)
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			text += " Ready=" + string(c.Status)
		case corev1.DisruptionTarget:
			text += strings.TrimRight(fmt.Sprintf(" DisruptionTarget=%s %s", c.Status, c.Reason), " ")
		}
	}
	if pod.DeletionTimestamp != nil {
		text += fmt.Sprintf(" terminating, grace %d", *pod.DeletionGracePeriodSeconds)
	}
	return text
}

// runPod creates a pod on node-1 and waits until it runs.
func (r *rig) runPod(name string, change ...func(*corev1.Pod)) {
	r.Helper()
	r.create("pods", pod(name, "node-1", change...))
	r.until(name+" runs", func() bool { return get[*corev1.Pod](r, "pods "+name).Status.Phase == corev1.PodRunning })
}

// stopKubelet stops a kubelet just after it renewed its lease, and sets the zero of noted times.
func (r *rig) stopKubelet(node string) {
	r.Helper()
	stage.Align(0)
	for renewedAt(r, node) != time.Now().Truncate(time.Second).Add(-time.Second).Unix() {
		time.Sleep(time.Second)
	}
	stage.Align(100 * time.Millisecond)
	r.Stop("kubelet/" + node)
	r.watch("nodes", describeNode)
	r.watch("pods", describePod)
	r.noteEvents("TaintManagerEviction", "NodeNotReady")
	r.resetNotes()
}

// renewedAt returns the second of the last renewal of the node's lease.
func renewedAt(r *rig, node string) int64 {
	lease, err := r.API().Get(r.Context(), r.target("leases.coordination.k8s.io kube-node-lease/"+node), metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return renewTime(lease)
}

// TestTRC14 stops a kubelet. Its pods are evicted after the default time, stay Terminating for
// ever, and go when the kubelet is back.
func TestTRC14(t *testing.T) {
	play(t, healthCluster(), func(r *rig) {
		r.runPod("web")
		r.runPod("stoic", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		})
		r.stopKubelet("node-1")
		time.Sleep(time.Hour)
		r.wantNotes(
			`51.8s   event Normal Node/node-1 NodeNotReady: Node node-1 status is now: NodeNotReady (node-controller)`,
			`51.8s   event Warning Pod/stoic NodeNotReady: Node is not ready (node-controller)`,
			`51.8s   event Warning Pod/web NodeNotReady: Node is not ready (node-controller)`,
			`51.8s   node node-1 Ready=Unknown NodeStatusUnknown`,
			`51.8s   node node-1 Ready=Unknown NodeStatusUnknown unreachable:NoSchedule`,
			`51.8s   pod stoic Running Ready=False`,
			`51.8s   pod web Running Ready=False`,
			`56.8s   node node-1 Ready=Unknown NodeStatusUnknown unreachable:NoSchedule unreachable:NoExecute`,
			`5m56.8s event Normal Pod/web TaintManagerEviction: Marking for deletion Pod default/web (taint-eviction-controller)`,
			`5m56.8s pod web Running DisruptionTarget=True DeletionByTaintManager Ready=False`,
			`5m56.8s pod web Running DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 30`,
		)
		r.resetNotes()
		r.Start("kubelet/node-1")
		time.Sleep(time.Minute)
		r.wantNotes(
			`800ms   node node-1 Ready=True KubeletReady unreachable:NoExecute`,
			`800ms   node node-1 Ready=True KubeletReady unreachable:NoSchedule unreachable:NoExecute`,
			`800ms   pod stoic Running Ready=True`,
			`800ms   pod web Running Ready=True DisruptionTarget=True DeletionByTaintManager terminating, grace 30`,
			`1.8s    pod web Succeeded Ready=False DisruptionTarget=True DeletionByTaintManager terminating, grace 30`,
			`2.8s    pod web Succeeded Ready=False DisruptionTarget=True DeletionByTaintManager terminating, grace 0`,
			`2.8s    pod web is gone`,
			`5.8s    node node-1 Ready=True KubeletReady`,
		)
	})
}

// TestTRC15 deletes the Node object while its kubelet is down: its pods go too.
func TestTRC15(t *testing.T) {
	play(t, healthCluster(), func(r *rig) {
		r.runPod("web")
		r.stopKubelet("node-1")
		r.delete("nodes node-1", metav1.DeleteOptions{})
		time.Sleep(5 * time.Minute)
		r.wantNotes(
			`0s      node node-1 is gone`,
			`46.8s   pod web Failed DisruptionTarget=True DeletionByPodGC Ready=True`,
			`46.8s   pod web Failed DisruptionTarget=True DeletionByPodGC Ready=True terminating, grace 0`,
			`46.8s   pod web is gone`,
		)
	})
}

// TestTRC16 taints a silent node out-of-service: its terminating pods go at once.
func TestTRC16(t *testing.T) {
	play(t, healthCluster(), func(r *rig) {
		r.runPod("web")
		r.runPod("other")
		r.stopKubelet("node-1")
		time.Sleep(time.Minute)
		r.delete("pods web", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		r.wantNotes(
			`51.8s   event Normal Node/node-1 NodeNotReady: Node node-1 status is now: NodeNotReady (node-controller)`,
			`51.8s   event Warning Pod/other NodeNotReady: Node is not ready (node-controller)`,
			`51.8s   event Warning Pod/web NodeNotReady: Node is not ready (node-controller)`,
			`51.8s   node node-1 Ready=Unknown NodeStatusUnknown`,
			`51.8s   node node-1 Ready=Unknown NodeStatusUnknown unreachable:NoSchedule`,
			`51.8s   pod other Running Ready=False`,
			`51.8s   pod web Running Ready=False`,
			`56.8s   node node-1 Ready=Unknown NodeStatusUnknown unreachable:NoSchedule unreachable:NoExecute`,
			`1m0s    pod web Running Ready=False terminating, grace 30`,
		)
		r.resetNotes()
		node := get[*corev1.Node](r, "nodes node-1")
		taints := append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		r.patch("nodes node-1", map[string]any{"spec": map[string]any{"taints": taints}})
		time.Sleep(time.Minute)
		r.wantNotes(
			`0s      event Normal Pod/other TaintManagerEviction: Cancelling deletion of Pod default/other (taint-eviction-controller)`,
			`0s      event Normal Pod/other TaintManagerEviction: Marking for deletion Pod default/other (taint-eviction-controller)`,
			`0s      event Normal Pod/web TaintManagerEviction: Cancelling deletion of Pod default/web (taint-eviction-controller)`,
			`0s      event Normal Pod/web TaintManagerEviction: Marking for deletion Pod default/web (taint-eviction-controller)`,
			`0s      node node-1 Ready=Unknown NodeStatusUnknown unreachable:NoSchedule unreachable:NoExecute out-of-service:NoExecute`,
			`0s      pod other Running DisruptionTarget=True DeletionByTaintManager Ready=False`,
			`0s      pod other Running DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 30`,
			`0s      pod web Running DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 30`,
			`5.8s    pod other Failed DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 0`,
			`5.8s    pod other Failed DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 30`,
			`5.8s    pod other is gone`,
			`5.8s    pod web Failed DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 0`,
			`5.8s    pod web Failed DisruptionTarget=True DeletionByTaintManager Ready=False terminating, grace 30`,
			`5.8s    pod web is gone`,
		)
	})
}

// TestAllNodesSilent stops every kubelet. The fault may be on the controller's side, so no pod is
// evicted, however long it lasts (CTL-03).
func TestAllNodesSilent(t *testing.T) {
	play(t, healthCluster(), func(r *rig) {
		r.runPod("web")
		for i := range 3 {
			r.Stop(fmt.Sprintf("kubelet/node-%d", i+1))
		}
		time.Sleep(time.Hour)
		if p := get[*corev1.Pod](r, "pods web"); p.DeletionTimestamp != nil {
			t.Error("the pod is evicted")
		}
		for _, obj := range r.list("nodes") {
			if text := describeNode(obj, watch.Modified); obj.GetName() == "node-1" && text != "node node-1 Ready=Unknown NodeStatusUnknown unreachable:NoSchedule" {
				t.Error(text)
			}
		}
	})
}
