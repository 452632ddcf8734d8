package nodelifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var origin = time.Unix(1_700_000_000, 0)

func node(conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(origin)},
		Status:     corev1.NodeStatus{Conditions: conditions},
	}
}

func ready(status corev1.ConditionStatus, heartbeat time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.NewTime(origin.Add(heartbeat))}
}

// TestSilence looks at one node every 5 s (CTL-01). Its kubelet renews the lease at 0, 10
// and 20 s, its status is from 0 s, and then nothing comes.
func TestSilence(t *testing.T) {
	var health *Health
	n := node(ready(corev1.ConditionTrue, 0))
	for second := 0; second <= 90; second += 5 {
		now := origin.Add(time.Duration(second) * time.Second)
		renewed := origin.Add(time.Duration(min(second, 20)/10*10) * time.Second)
		finding := CheckHealth(health, n, renewed, at(now), Default())
		health = &finding.Health
		if got := finding.BecameNotReady(); got != (second == 70) {
			t.Fatalf("at %d s: became not ready: %v", second, got)
		}
		if finding.Conditions != nil {
			n.Status.Conditions = finding.Conditions
		}
	}
	var texts []string
	for _, c := range n.Status.Conditions {
		texts = append(texts, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	want := "Ready=Unknown NodeStatusUnknown, MemoryPressure=Unknown NodeStatusNeverUpdated, " +
		"DiskPressure=Unknown NodeStatusNeverUpdated, PIDPressure=Unknown NodeStatusNeverUpdated"
	if got := strings.Join(texts, ", "); got != want {
		t.Errorf("got %s", got)
	}
	n.Status.Conditions = []corev1.NodeCondition{ready(corev1.ConditionTrue, 95*time.Second)}
	if f := CheckHealth(health, n, time.Time{}, at(origin.Add(95*time.Second)), Default()); f.Conditions != nil || f.Current != corev1.ConditionTrue {
		t.Errorf("back: %+v", f)
	}
}

// TestClockOfANode has a node whose clock is set back by a day and then ahead by two: it renews its
// lease all the time, and is not silent.
func TestClockOfANode(t *testing.T) {
	var health *Health
	for second := 0; second <= 300; second += 5 {
		passed := time.Duration(second) * time.Second
		renewed := origin.Add(passed.Truncate(10 * time.Second))
		if second >= 200 {
			renewed = renewed.Add(24 * time.Hour)
		} else if second >= 100 {
			renewed = renewed.Add(-24 * time.Hour)
		}
		finding := CheckHealth(health, node(ready(corev1.ConditionTrue, 0)), renewed, at(origin.Add(passed)), Default())
		health = &finding.Health
		if finding.BecameNotReady() {
			t.Fatalf("at %d s it is taken for silent", second)
		}
	}
}

// TestNeverHeard has a node without a status: it gets a minute (CTL-01).
func TestNeverHeard(t *testing.T) {
	var health *Health
	for second, want := range map[int]bool{55: false, 60: true} {
		finding := CheckHealth(health, node(), time.Time{}, at(origin.Add(time.Duration(second)*time.Second)), Default())
		if got := finding.Conditions != nil; got != want {
			t.Errorf("at %d s: %v", second, got)
		}
		if want && finding.Conditions[0].Message != "Kubelet never posted node status." {
			t.Errorf("%+v", finding.Conditions[0])
		}
	}
}

// TestTD116 is upstream's TestTaintsNodeByCondition and TestSwapUnreachableNotReadyTaints.
func TestTD116(t *testing.T) {
	text := func(taints []corev1.Taint) string {
		var all []string
		for _, taint := range taints {
			all = append(all, strings.TrimPrefix(taint.Key, "node.kubernetes.io/")+":"+string(taint.Effect))
		}
		return strings.Join(all, " ")
	}
	both := func(n *corev1.Node, status corev1.ConditionStatus) string {
		n.Status.Conditions = []corev1.NodeCondition{ready(status, 0)}
		n.Spec.Taints, _ = NoScheduleTaints(n, origin)
		n.Spec.Taints, _ = NoExecuteTaints(n, status, origin)
		return text(n.Spec.Taints)
	}
	n := node()
	n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
	for _, row := range []struct {
		status corev1.ConditionStatus
		want   string
	}{
		{corev1.ConditionUnknown, "mine:NoSchedule unreachable:NoSchedule unreachable:NoExecute"},
		{corev1.ConditionFalse, "mine:NoSchedule not-ready:NoSchedule not-ready:NoExecute"},
		{corev1.ConditionTrue, "mine:NoSchedule"},
	} {
		if got := both(n, row.status); got != row.want {
			t.Errorf("%s: %s, want %s", row.status, got, row.want)
		}
		if _, again := NoScheduleTaints(n, origin); again {
			t.Errorf("%s: the same taints are written again", row.status)
		}
	}
	n.Spec.Unschedulable = true
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	}
	taints, _ := NoScheduleTaints(n, origin)
	if got := text(taints); got != "mine:NoSchedule memory-pressure:NoSchedule unschedulable:NoSchedule" {
		t.Errorf("cordoned under pressure: %s", got)
	}
}

func TestZoneState(t *testing.T) {
	for _, row := range []struct {
		ready, notReady int
		want            State
	}{{0, 0, Normal}, {0, 1, Full}, {1, 1, Normal}, {1, 2, Normal}, {2, 3, Partial}, {9, 10, Normal}, {0, 9, Full}} {
		if got := ZoneState(row.ready, row.notReady); got != row.want {
			t.Errorf("%d ready, %d not: %v, want %v", row.ready, row.notReady, got, row.want)
		}
	}
}

// TestZones has the pace of evictions (CTL-03).
func TestZones(t *testing.T) {
	z := NewZones()
	at := func(second int) time.Time { return origin.Add(time.Duration(second) * time.Second) }
	take := func(second int, want ...string) {
		t.Helper()
		if got := z.TakeDue(at(second)); !slices.Equal(got, want) {
			t.Errorf("at %d s: %q, want %q", second, got, want)
		}
	}
	if change := z.Update(map[string]Census{"a": {Ready: 5, NotReady: 2}, "b": {Ready: 1}}); change != (Change{}) {
		t.Errorf("%+v", change)
	}
	for _, name := range []string{"n1", "n2", "n1"} {
		z.Add("a", name)
	}
	take(0, "n1")
	take(9)
	take(10, "n2")
	take(30)

	z.Update(map[string]Census{"a": {Ready: 2, NotReady: 5}, "b": {Ready: 1}}) // small and half down: nobody
	z.Add("a", "n3")
	take(100)
	z.Update(map[string]Census{"a": {Ready: 20, NotReady: 40}, "b": {Ready: 1}}) // large: slowly
	z.Add("a", "n4")
	take(200, "n3")
	take(299)
	take(300, "n4")
	z.Update(map[string]Census{"a": {NotReady: 7}, "b": {Ready: 1}}) // all of one zone: as if nothing were
	z.Add("a", "n5")
	z.Remove("n5")
	z.Add("a", "n6")
	take(400, "n6")
	if change := z.Update(map[string]Census{"a": {NotReady: 7}, "b": {NotReady: 1}}); change != (Change{ClearTaints: true}) {
		t.Errorf("all down: %+v", change)
	}
	z.Add("a", "n7")
	take(1000)
	if !z.NextDue().IsZero() {
		t.Error("somebody is next when all is down")
	}
	if change := z.Update(map[string]Census{"a": {NotReady: 7}, "b": {NotReady: 1}}); change != (Change{}) {
		t.Errorf("still all down: %+v", change)
	}
	if change := z.Update(map[string]Census{"a": {NotReady: 7}, "b": {Ready: 1}}); change != (Change{ResetProbes: true}) {
		t.Errorf("one is back: %+v", change)
	}
	take(1000, "n7")
}

// at is an instant of a clock that is right.
func at(now time.Time) Instant { return Instant{now, now} }
