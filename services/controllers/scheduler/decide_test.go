package scheduler

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("4"),
				corev1.ResourceMemory: resource.MustParse("8Gi"),
				corev1.ResourcePods:   resource.MustParse("3"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func requests(cpu, memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
}

func hostPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, Protocol: corev1.ProtocolTCP}}
	}
}

func tainted(effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: effect}}
	}
}

func TestDecide(t *testing.T) {
	busy := func(n *corev1.Node) { n.Labels["busy"] = "yes" }
	notReady := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	tests := []struct {
		name    string
		pod     *corev1.Pod
		nodes   []*corev1.Node
		placed  map[string]*corev1.Pod
		outcome Outcome
		node    string
		message string
	}{
		{name: "the first of equals", pod: pod("a"), nodes: []*corev1.Node{node("n1"), node("n2")}, outcome: Bind, node: "n1"},
		{
			name: "the one with fewer pods", pod: pod("a"), nodes: []*corev1.Node{node("n1"), node("n2")},
			placed: map[string]*corev1.Pod{"n1": pod("x")}, outcome: Bind, node: "n2",
		},
		{
			name: "the one with more left", pod: pod("a", requests("1", "1Gi")), nodes: []*corev1.Node{node("n1"), node("n2")},
			placed: map[string]*corev1.Pod{"n1": pod("x", requests("2", "1Gi"))}, outcome: Bind, node: "n2",
		},
		{
			name: "too little of two resources", pod: pod("a", requests("9", "9Gi")), nodes: []*corev1.Node{node("n1")},
			outcome: Wait, message: "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. no new claims to deallocate, " +
				"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		{
			name: "a label asked for", pod: pod("a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"busy": "yes"} }),
			nodes: []*corev1.Node{node("n1"), node("n2", busy)}, outcome: Bind, node: "n2",
		},
		{
			name: "no node has the label", pod: pod("a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"busy": "no"} }),
			nodes: []*corev1.Node{node("n1"), node("n2", busy)}, outcome: Wait,
			message: "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, " +
				"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		},
		{
			name: "tainted", pod: pod("a"), nodes: []*corev1.Node{node("n1", tainted(corev1.TaintEffectNoSchedule))},
			outcome: Wait, message: "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, " +
				"preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		{
			name: "a taint that only prefers", pod: pod("a"), nodes: []*corev1.Node{node("n1", tainted(corev1.TaintEffectPreferNoSchedule))},
			outcome: Bind, node: "n1",
		},
		{
			name: "tainted and tolerated", nodes: []*corev1.Node{node("n1", tainted(corev1.TaintEffectNoExecute))},
			pod: pod("a", func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			}),
			outcome: Bind, node: "n1",
		},
		{
			name: "a host port that is taken", pod: pod("a", hostPort(9000)), nodes: []*corev1.Node{node("n1"), node("n2")},
			placed: map[string]*corev1.Pod{"n1": pod("x", hostPort(9000))}, outcome: Bind, node: "n2",
		},
		{
			name: "not ready, cordoned", pod: pod("a"), nodes: []*corev1.Node{node("n1", notReady), node("n2", cordoned)},
			outcome: Wait, message: "0/2 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable. no new claims to deallocate, " +
				"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
		},
		{name: "no nodes", pod: pod("a"), outcome: Wait, message: "no nodes available to schedule pods"},
		{
			name: "API-81 being deleted", pod: pod("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
			nodes: []*corev1.Node{node("n1")}, outcome: Skip, message: "skip schedule deleting pod: default/a",
		},
		{
			name: "gated", nodes: []*corev1.Node{node("n1")}, outcome: Gated,
			pod: pod("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "ex.io/g"}} }),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			state := NewState()
			for _, n := range test.nodes {
				state.SetNode(n)
			}
			for name, p := range test.placed {
				state.Place(p, name)
			}
			got := Decide(test.pod, state.World())
			if want := (Decision{Outcome: test.outcome, Node: test.node, Message: test.message}); !reflect.DeepEqual(got, want) {
				t.Errorf("Decide = %+v, want %+v", got, want)
			}
		})
	}
}

// TestFillsEveryNode places pods until no node has room. The first remaining pod is queued again
// when room becomes free.
func TestFillsEveryNode(t *testing.T) {
	state := NewState()
	for _, name := range []string{"n1", "n2"} {
		state.SetNode(node(name))
	}
	for name := range strings.FieldsSeq("a b c d e f g") {
		state.SetPod(pod(name))
	}
	count := map[string]int{}
	for next := state.Next(); next != nil; next = state.Next() {
		decision := Decide(next, state.World())
		if decision.Outcome != Bind {
			state.Wait(next)
			continue
		}
		count[decision.Node]++
		state.Place(next, decision.Node)
	}
	if count["n1"] != 3 || count["n2"] != 3 {
		t.Fatalf("pods per node = %v, want 3 on each", count)
	}

	// CTL-54: a terminating pod keeps its place until it is terminal.
	terminating := pod("a", func(p *corev1.Pod) {
		p.Spec.NodeName = "n1"
		p.DeletionTimestamp = &metav1.Time{}
	})
	state.SetPod(terminating)
	if next := state.Next(); next != nil {
		t.Fatalf("%s became active although nothing was freed", next.Name)
	}
	finished := terminating.DeepCopy()
	finished.Status.Phase = corev1.PodSucceeded
	state.SetPod(finished)
	next := state.Next()
	if next == nil || next.Name != "g" {
		t.Fatalf("next = %v, want g, for which there is room now", next)
	}
	if got := Decide(next, state.World()); got.Node != "n1" {
		t.Errorf("g goes to %q, want n1", got.Node)
	}
}
