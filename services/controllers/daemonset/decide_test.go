package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func set(edits ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	s := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "set", Generation: 2}}
	s.Spec.Template.Labels = map[string]string{"app": "agent"}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func rolling(surge, unavailable string) func(*appsv1.DaemonSet) {
	return func(s *appsv1.DaemonSet) {
		a, b := intstr.Parse(surge), intstr.Parse(unavailable)
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: &a, MaxUnavailable: &b}
	}
}

func onDelete(s *appsv1.DaemonSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType }

func selecting(s *appsv1.DaemonSet) {
	s.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
}

func tolerating(s *appsv1.DaemonSet) {
	s.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
}

// nodes reads "a b:ssd c:cordoned": names and what is special about them.
func nodes(text string) []*corev1.Node {
	var all []*corev1.Node
	for word := range strings.FieldsSeq(text) {
		name, special, _ := strings.Cut(word, ":")
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		switch special {
		case "ssd":
			n.Labels = map[string]string{"disk": "ssd"}
		case "cordoned":
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		case "unreachable":
			n.Spec.Taints = []corev1.Taint{
				{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
			}
		case "gpu":
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		case "drained":
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoExecute}}
		}
		all = append(all, n)
	}
	return all
}

// pods reads "a b:old c:failed": the nodes of pods and what is special about them. A second
// one of a node is called b2 and is younger.
func pods(text string) []*corev1.Pod {
	var all []*corev1.Pod
	seen := map[string]int{}
	for word := range strings.FieldsSeq(text) {
		node, special, _ := strings.Cut(word, ":")
		seen[node]++
		name := node
		if seen[node] > 1 {
			name = fmt.Sprint(node, seen[node])
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(time.Duration(seen[node]-10) * time.Hour)),
			Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: "new"},
		}}
		p.Spec.NodeName = node
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
		for what := range strings.SplitSeq(special, ",") {
			switch what {
			case "old":
				p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = "old"
			case "failed":
				p.Status.Phase, p.Status.Conditions = corev1.PodFailed, nil
			case "succeeded":
				p.Status.Phase, p.Status.Conditions = corev1.PodSucceeded, nil
			case "unready":
				p.Status.Conditions = nil
			case "going":
				p.DeletionTimestamp = &metav1.Time{Time: now}
			case "unbound":
				p.Spec = NewPod(set(), node, "new").Spec
			}
		}
		all = append(all, p)
	}
	return all
}

func done(plan Plan) string {
	var words []string
	for _, node := range plan.Create {
		words = append(words, "+"+node)
	}
	for _, pod := range plan.Delete {
		words = append(words, "-"+pod.Name)
	}
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name              string
		set               *appsv1.DaemonSet
		nodes, pods, want string
	}{
		{"one on each", set(), "a b c", "b", "+a +c"},
		{"on each that is selected", set(selecting), "a b:ssd", "a", "+b -a"},
		{"on those that are cordoned too", set(), "a:cordoned", "", "+a"},
		{"not on one that is not reached", set(), "a:unreachable", "", ""},
		{"where the one that is there stays", set(), "a:unreachable", "a", ""},
		{"not where a taint forbids it", set(), "a:gpu", "", ""},
		{"where it is tolerated", set(tolerating), "a:gpu", "", "+a"},
		{"one that is there stays with NoSchedule", set(), "a:gpu", "a", ""},
		{"but not with NoExecute", set(), "a:drained", "a", "-a"},
		{"the next waits for the one that goes (CTL-34)", set(), "a", "a:going", ""},
		{"one that failed goes", set(), "a b", "a:failed b", "-a"},
		{"one that is over goes", set(), "a", "a:succeeded", "-a"},
		{"the oldest of two stays", set(), "a", "a a", "-a2"},
		{"the bound one before the older", set(), "a", "a:unbound a", "-a"},
		{"one that waits for a node that is gone", set(), "a", "a b:unbound", "-b"},
		{"one on a node that is gone is not ours", set(), "a", "a b", ""},
		// Rolling.
		{"one at a time", set(), "a b c", "a:old b:old c:old", "-a"},
		{"the next when the one before is there", set(), "a b c", "a b:old c:old", "-b"},
		{"not before", set(), "a b c", "a:unready b:old c:old", ""},
		{"nor while it goes", set(), "a b c", "a:old,going b:old c:old", ""},
		{"half of them", set(rolling("0", "50%")), "a b c", "a:old b:old c:old", "-a -b"},
		{"the sick ones first", set(), "a b c", "a:old b:old c:old,unready", "-c"},
		{"on delete only", set(onDelete), "a b", "a:old b:old", ""},
		{"surge: beside the old one", set(rolling("1", "0")), "a b", "a:old b:old", "+a"},
		{"not more than may be", set(rolling("1", "0")), "a b", "a:old a:unready b:old", ""},
		{"the old one goes when the new one is there", set(rolling("1", "0")), "a b", "a:old a b:old", "-a"},
		{"or when it is sick", set(rolling("1", "0")), "a", "a:old,unready a:unready", "-a"},
	} {
		plan := Decide(View{Set: c.set, Nodes: nodes(c.nodes), Pods: pods(c.pods), Hash: "new"}, now)
		if got := done(plan); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	stale := Decide(View{Set: set(), Nodes: nodes("a"), Hash: "new", Stale: true}, now)
	if done(stale) != "" || stale.Status.DesiredNumberScheduled != 1 {
		t.Errorf("an old view: %q and %+v, want nothing done and the status counted", done(stale), stale.Status)
	}
	held := Decide(View{Set: set(), Nodes: nodes("a"), Pods: pods("a:failed"), Hash: "new", FailedPodDelay: func(string) time.Duration { return 4 * time.Second }}, now)
	if done(held) != "" || held.RequeueAfter != 4*time.Second {
		t.Errorf("a pod that failed just now: %q, again in %v", done(held), held.RequeueAfter)
	}
}

func TestStatus(t *testing.T) {
	s := Decide(View{Set: set(), Nodes: nodes("a b c d:gpu e"), Pods: pods("a b:old c:unready d"), Hash: "new", Stale: true}, now).Status
	got := fmt.Sprintf("desired %d current %d ready %d updated %d available %d unavailable %d misscheduled %d",
		s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberUnavailable, s.NumberMisscheduled)
	if want := "desired 4 current 3 ready 2 updated 2 available 2 unavailable 2 misscheduled 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPodFor(t *testing.T) {
	hosting := set(func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.HostNetwork = true })
	pod := NewPod(hosting, "a", "h")
	var tolerated []string
	for _, toleration := range pod.Spec.Tolerations {
		tolerated = append(tolerated, strings.TrimPrefix(toleration.Key, "node.kubernetes.io/")+":"+string(toleration.Effect))
	}
	want := []string{
		"not-ready:NoExecute", "unreachable:NoExecute", "disk-pressure:NoSchedule", "memory-pressure:NoSchedule", "pid-pressure:NoSchedule",
		"unschedulable:NoSchedule", "network-unavailable:NoSchedule",
	}
	if !slices.Equal(tolerated, want) {
		t.Errorf("tolerates %v, want %v", tolerated, want)
	}
	if TargetNode(pod) != "a" || pod.Spec.NodeName != "" || hashOf(pod) != "h" || pod.GenerateName != "agent-" {
		t.Errorf("meant for %q, bound to %q, of %q, called %q", TargetNode(pod), pod.Spec.NodeName, hashOf(pod), pod.GenerateName)
	}
	if len(hosting.Spec.Template.Spec.Tolerations) != 0 {
		t.Error("the template was changed")
	}
}
