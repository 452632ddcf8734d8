package attachdetach

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var origin = time.Unix(1_700_000_000, 0)

func use(pod, node string, mode corev1.PersistentVolumeAccessMode) Use {
	u := Use{
		Pod:    &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, UID: types.UID(pod)}, Spec: corev1.PodSpec{NodeName: node}},
		Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}},
	}
	u.Volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	return u
}

func onN1() []*storagev1.VolumeAttachment {
	return []*storagev1.VolumeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: "on-n1"}, Spec: storagev1.VolumeAttachmentSpec{
		NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")},
	}}}
}

func text(p Plan) string {
	var parts []string
	for _, d := range p.Detach {
		parts = append(parts, "detach "+d.Name)
	}
	for _, a := range p.Attach {
		parts = append(parts, "attach on "+a.Pod.Spec.NodeName)
	}
	for _, b := range p.Blocked {
		parts = append(parts, b.Pod.Name+": "+b.Message)
	}
	return strings.Join(parts, ", ")
}

// TestDecide is CTL-20, and TD-118 as far as volumes go.
func TestDecide(t *testing.T) {
	node := func(status corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Taints: taints}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}},
		}}
	}
	ready, silent := node(corev1.ConditionTrue), node(corev1.ConditionUnknown)
	gone := node(corev1.ConditionUnknown, corev1.Taint{Key: corev1.TaintNodeOutOfService})
	once, many := corev1.ReadWriteOnce, corev1.ReadWriteMany
	for _, row := range []struct {
		name   string
		uses   []Use
		have   []*storagev1.VolumeAttachment
		n1     *corev1.Node
		unused time.Duration // for how long
		want   string
	}{
		{name: "first use", uses: []Use{use("a", "n1", once)}, n1: ready, want: "attach on n1"},
		{name: "attached", uses: []Use{use("a", "n1", once)}, have: onN1(), n1: ready},
		{
			name: "used on two nodes", uses: []Use{use("a", "n1", once), use("b", "n2", once)}, have: onN1(), n1: ready,
			want: `b: Waiting for detach for volume "v" Volume is already used by pod(s) a`,
		},
		{name: "for many", uses: []Use{use("a", "n1", many), use("b", "n2", many)}, have: onN1(), n1: ready, want: "attach on n2"},
		{name: "moves", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: ready, want: "detach on-n1, attach on n2"},
		{
			name: "its node is silent", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: silent, unused: 5 * time.Minute,
			want: `b: Waiting for detach for volume "v" Volume is already exclusively attached to one node, ` +
				`waiting on detach before it can be attached to another node`,
		},
		{name: "after six minutes", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: silent, unused: 6 * time.Minute, want: "detach on-n1, attach on n2"},
		{name: "out of service", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: gone, want: "detach on-n1, attach on n2"},
		{name: "no such node", have: onN1(), want: "detach on-n1"},
	} {
		view := View{Uses: row.uses, Attachments: row.have, Nodes: map[string]*corev1.Node{"n2": ready}, Unused: map[string]time.Time{}}
		if row.n1 != nil {
			view.Nodes["n1"] = row.n1
		}
		if row.unused > 0 {
			view.Unused["on-n1"] = origin.Add(-row.unused)
		}
		plan := Decide(view, origin)
		if got := text(plan); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
		if len(plan.Unused) > 0 && !plan.Recheck.Equal(origin.Add(MaxWait-row.unused)) {
			t.Errorf("%s: recheck at %v", row.name, plan.Recheck)
		}
	}
}

func TestDone(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: origin}}
	for want, pods := range map[bool][]corev1.Pod{
		true: {
			{Status: corev1.PodStatus{Phase: corev1.PodFailed}},
			{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended}}},
		},
		false: {
			{},
			{ObjectMeta: deleted},
			{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended, running}}},
		},
	} {
		for i := range pods {
			if Done(&pods[i]) != want {
				t.Errorf("%+v: want %v", pods[i], want)
			}
		}
	}
}
