package podgc

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var origin = time.Unix(1_700_000_000, 0)

// pods reads "aF bS cR dE": a Failed, b Succeeded, c Running, d Evicted, each older than
// the next.
func pods(text string) []*corev1.Pod {
	phases := map[byte]corev1.PodPhase{'F': corev1.PodFailed, 'S': corev1.PodSucceeded, 'R': corev1.PodRunning, 'E': corev1.PodFailed}
	var all []*corev1.Pod
	for i, word := range strings.Fields(text) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: word[:1], UID: types.UID(word[:1]), CreationTimestamp: metav1.NewTime(origin.Add(time.Duration(i) * time.Second)),
			},
			Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: phases[word[1]]},
		}
		if word[1] == 'E' {
			pod.Status.Reason = "Evicted"
		}
		all = append(all, pod)
	}
	return all
}

func names(removals []Removal) string {
	var all []string
	for _, removal := range removals {
		all = append(all, removal.Pod.Name)
	}
	return strings.Join(all, " ")
}

// TestTD110 is upstream's TestGCTerminated.
func TestTD110(t *testing.T) {
	nodes := map[string]*corev1.Node{"n": {}}
	for _, row := range []struct {
		pods      string
		threshold int
		want      string
	}{
		{"aF bS cF", 1, "a b"},
		{"aF bS", 0, ""},
		{"aF bS cF", -1, ""},
		{"aR bS cF", 1, "b"},
		{"aF bS", 1, "a"},
		{"aF bS", 5, ""},
		{"aF bS cE", 1, "c a"},
		{"aR bS cE", 1, "c"},
	} {
		plan := Decide(View{Pods: pods(row.pods), Nodes: nodes, Threshold: row.threshold}, origin)
		if got := names(plan.Removals); got != row.want {
			t.Errorf("%s over %d: %q, want %q", row.pods, row.threshold, got, row.want)
		}
	}
}

// TestTD112 is upstream's TestGCUnscheduledTerminating.
func TestTD112(t *testing.T) {
	deleted := &metav1.Time{Time: origin}
	for _, row := range []struct {
		deleted *metav1.Time
		node    string
		want    string
	}{{deleted, "", "a b c"}, {nil, "", ""}, {deleted, "n", ""}} {
		all := pods("aF bS cR")
		for _, pod := range all {
			pod.DeletionTimestamp, pod.Spec.NodeName = row.deleted, row.node
		}
		plan := Decide(View{Pods: all, Nodes: map[string]*corev1.Node{"n": {}}}, origin)
		if got := names(plan.Removals); got != row.want {
			t.Errorf("deleted %v on %q: %q, want %q", row.deleted, row.node, got, row.want)
		}
	}
}

// TestTD113OutOfService is upstream's TestGCTerminating: what is being deleted on a node that
// is out of service goes (CTL-13).
func TestTD113OutOfService(t *testing.T) {
	taint := []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule, Value: "nodeshutdown"}}
	ready := func(status corev1.ConditionStatus) corev1.NodeStatus {
		return corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}
	}
	for _, row := range []struct {
		name string
		node corev1.Node
		want string
	}{
		{"not ready, tainted", corev1.Node{Spec: corev1.NodeSpec{Taints: taint}, Status: ready(corev1.ConditionUnknown)}, "a"},
		{"ready, tainted", corev1.Node{Spec: corev1.NodeSpec{Taints: taint}, Status: ready(corev1.ConditionTrue)}, ""},
		{"not ready", corev1.Node{Status: ready(corev1.ConditionFalse)}, ""},
	} {
		all := pods("aR bR")
		all[0].DeletionTimestamp = &metav1.Time{Time: origin}
		plan := Decide(View{Pods: all, Nodes: map[string]*corev1.Node{"n": &row.node}}, origin)
		if got := names(plan.Removals); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// TestTD111Orphans is upstream's TestGCOrphaned: it walks the looks after a node is gone (CTL-10).
func TestTD111Orphans(t *testing.T) {
	all := pods("aR bF")
	all[1].DeletionTimestamp = &metav1.Time{Time: origin}
	view := View{Pods: all, Nodes: map[string]*corev1.Node{}}
	for _, row := range []struct {
		after time.Duration
		want  []string
	}{{0, nil}, {20 * time.Second, nil}, {40 * time.Second, []string{"n"}}} {
		plan := Decide(view, origin.Add(row.after))
		if !slices.Equal(plan.Suspects, row.want) || len(plan.Removals) > 0 {
			t.Errorf("after %v: %q, want %q", row.after, plan.Suspects, row.want)
		}
		view.MissingSince = plan.MissingSince
	}
	if got := names(Orphans(all, []string{"n"})); got != "a b" {
		t.Errorf("orphans %q", got)
	}
	view.Nodes["n"] = &corev1.Node{}
	if plan := Decide(view, origin.Add(time.Minute)); len(plan.MissingSince) > 0 {
		t.Error("a node that came back is still missed")
	}
}
