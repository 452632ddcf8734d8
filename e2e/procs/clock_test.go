package procs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// now returns the cluster's time.
func (c *cluster) now() time.Time {
	c.t.Helper()
	var shown struct{ Time time.Time }
	if err := json.Unmarshal([]byte(c.must("clock", "-o", "json")), &shown); err != nil {
		c.t.Fatal(err)
	}
	return shown.Time
}

// getPod returns a pod; nil if there is none.
func (c client) getPod(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	obj, err := c.Get(t.Context(), pods(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		t.Fatal(obj, err)
	}
	return pod
}

func (c client) getNode(t testing.TB, name string) *corev1.Node {
	t.Helper()
	kind, _ := kinds.ByResource("nodes")
	obj, err := c.Get(t.Context(), podapi.Target{Kind: kind, Name: name}, metav1.GetOptions{})
	node, ok := obj.(*corev1.Node)
	if !ok {
		t.Fatal(obj, err)
	}
	return node
}

func readyCondition(node *corev1.Node) corev1.NodeCondition {
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 {
		return corev1.NodeCondition{}
	}
	return node.Status.Conditions[i]
}

// unreachableSince returns when a node got the NoExecute taint, if it has it.
func unreachableSince(node *corev1.Node) (since []time.Time) {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute && taint.TimeAdded != nil {
			since = append(since, taint.TimeAdded.Time)
		}
	}
	return since
}

// TestANodeIsLost is TRC-14 with the defaults, real processes and real signals, at clock speed 20:
// six minutes of cluster time. At speed 60 a machine that is busy for a second would lose nodes by
// itself.
func TestANodeIsLost(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2", "--speed", "20")
	api := c.dial()
	c.apply(manifest("web", "ignores TERM", 30))
	eventually(t, "the pod runs", func() bool { return api.getPod(t, "web").Status.Phase == corev1.PodRunning })
	name := api.getPod(t, "web").Spec.NodeName
	began := time.Now()
	ready := func() bool { return readyCondition(api.getNode(t, name)).Status == corev1.ConditionTrue }
	eventually(t, "the node is Ready when its kubelet is killed", func() bool {
		if !ready() {
			return false
		}
		began = time.Now()
		c.kill("kubelet/" + name)
		if !ready() { // a busy machine may lose nodes by itself
			c.must("up", "--detach")
			return false
		}
		return true
	})
	lease := mustGet[*coordinationv1.Lease](t, api, targetOf("leases.coordination.k8s.io", corev1.NamespaceNodeLease, name))
	lost := lease.Spec.RenewTime.Time
	eventually(t, "the node is Unknown", func() bool { return readyCondition(api.getNode(t, name)).Status == corev1.ConditionUnknown })
	if silent := readyCondition(api.getNode(t, name)).LastTransitionTime.Sub(lost); silent < 49*time.Second { // the times are whole seconds
		t.Errorf("Unknown %v after its last word, want 50 s", silent)
	}
	var tainted []time.Time // more than once if all nodes became NotReady meanwhile
	eventually(t, "the pod is evicted", func() bool {
		tainted = append(tainted, unreachableSince(api.getNode(t, name))...)
		return api.getPod(t, "web").DeletionTimestamp != nil
	})
	pod := api.getPod(t, "web")
	marked := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
	tainted = slices.DeleteFunc(tainted, marked.Before)
	if len(tainted) == 0 {
		t.Fatal("no taint, want unreachable, NoExecute, before the eviction")
	}
	if waited := marked.Sub(tainted[len(tainted)-1]); waited < 299*time.Second {
		t.Errorf("evicted %v after the taint, want 300 s", waited)
	}
	t.Logf("evicted %v after its last word, in %v of the wall", marked.Sub(lost), time.Since(began).Round(time.Millisecond))
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }) {
		t.Errorf("conditions %v, want DisruptionTarget", pod.Status.Conditions)
	}
	eventually(t, "its grace is long over", func() bool { return c.now().Sub(marked) > 2*time.Minute })
	if api.getPod(t, "web") == nil {
		t.Error("the pod is gone, and nobody has stopped it")
	}
	c.must("up", "--detach")
	eventually(t, "the node is back", func() bool {
		node := api.getNode(t, name)
		return readyCondition(node).Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
	})
	eventually(t, "the pod is gone", func() bool { return api.getPod(t, "web") == nil })
	t.Logf("all of it took %v of the wall", time.Since(began).Round(time.Millisecond))
}

// TestTheClockIsMoved speeds up a deletion while it is under way, and pauses another.
func TestTheClockIsMoved(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--timing", "fastest")
	api := c.dial()
	for _, name := range []string{"fast", "held"} { // without eviction while a wall second is a quarter of an hour
		c.apply(strings.Replace(manifest(name, "ignores TERM", 3600), "spec:", "spec:\n  tolerations: [{operator: Exists}]", 1))
	}
	for _, name := range []string{"fast", "held"} {
		eventually(t, name+" runs", func() bool { return api.getPod(t, name).Status.Phase == corev1.PodRunning })
	}
	c.must("delete", "pod", "fast", "--wait=false")
	marked := c.now()
	c.must("clock", "--speed", "1000")
	eventually(t, "the pod is gone", func() bool { return api.getPod(t, "fast") == nil })
	if took := c.now().Sub(marked); took < time.Hour-time.Minute {
		t.Errorf("its grace of an hour took %v", took)
	}

	c.must("clock", "--speed", "1") // otherwise its hour would be over in seconds, before the pause
	c.must("delete", "pod", "held", "--wait=false")
	c.must("clock", "pause")
	c.must("clock", "--speed", "10000") // an hour takes a third of a second, except for the pause
	held := c.now()
	for range 10 {
		if api.getPod(t, "held") == nil || !c.now().Equal(held) {
			t.Fatal("a deletion goes on in a pause")
		}
	}
	c.must("clock", "resume")
	eventually(t, "the pod is gone", func() bool { return api.getPod(t, "held") == nil })
}

// TestAllClocksAgree pauses the clock, so that every process shows the same time, including one
// that starts after the change.
func TestAllClocksAgree(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2", "--speed", "7.3")
	c.must("clock", "--speed", "60")
	c.must("clock", "step", "5m")
	c.must("clock", "pause")
	c.kill("kubelet/node-1")
	c.must("clock", "step", "10m") // beyond the reading of a process that learns of the pause late: no clock goes back
	c.must("up", "--detach")
	asks := mgmt.NewClient(c.connect())
	want := c.now()
	for _, process := range []string{"apiserver", "controllers", "kubelet/node-1", "kubelet/node-2", "runtime/node-1"} {
		eventually(t, fmt.Sprintf("%s has heard of all changes, and shows %v", process, want), func() bool {
			answer, err := asks.Inspect(t.Context(), process, nil)
			var self inspect.Self
			return err == nil && json.Unmarshal(answer, &self) == nil && self.Now.Equal(want)
		})
	}
	c.must("clock", "resume")
	if before, after := c.now(), c.now(); !after.After(before) {
		t.Errorf("resumed, it showed %v and then %v", before, after)
	}
}

// TestMetricsOfAllProcesses reads each process's metrics through the gateway.
func TestMetricsOfAllProcesses(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.apply(manifest("web", "on TERM exits 0 after 0s", 1))
	c.must("wait", "--for=condition=Ready", "pod/web", waitFlag)
	countNodes(t, c.restConfig())
	asks := kubernetes.NewForConfigOrDie(c.restConfig()).RESTClient().Get().AbsPath("/metrics/all")
	for _, want := range []string{
		`scheduler_schedule_attempts_total{process="controllers",result="scheduled",profile="default-scheduler"} 1`,
		`workqueue_adds_total{process="controllers",name="node_lifecycle_controller"}`,
		`kubelet_running_pods{process="kubelet/node-1"} 1`,
		`kubelet_runtime_operations_total{process="kubelet/node-1",operation_type="start_container"} 1`,
		`go_goroutines{process="runtime/node-1"}`, `go_goroutines{process="apiserver"}`,
		`apiserver_request_total{process="gateway"`,
	} {
		eventually(t, want+" is in the metrics of all processes", func() bool {
			text, err := asks.DoRaw(t.Context()) // processes that do not answer in time are omitted
			return err == nil && strings.Contains(string(text), want)
		})
	}
}
