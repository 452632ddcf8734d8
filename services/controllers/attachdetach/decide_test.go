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

const device = "kubernetes.io/csi/disk.example.com^h"

func volume(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "h"}
	return v
}

func use(pod, node string, mode corev1.PersistentVolumeAccessMode) Use {
	return Use{
		Pod:    &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod, UID: types.UID(pod)}, Spec: corev1.PodSpec{NodeName: node}},
		Volume: volume(mode),
	}
}

func onN1(edits ...func(*storagev1.VolumeAttachment)) []*storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "on-n1"}, Spec: storagev1.VolumeAttachmentSpec{
		NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")},
	}}
	for _, edit := range edits {
		edit(a)
	}
	return []*storagev1.VolumeAttachment{a}
}

// elsewhere is an attachment of a volume that is not there.
func elsewhere() []*storagev1.VolumeAttachment {
	return onN1(func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = new("gone") })
}

func going(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &metav1.Time{Time: origin} }

func text(p Plan) string {
	var parts []string
	for _, d := range p.Detach {
		forced := ""
		if d.Forced {
			forced = " by force"
		}
		parts = append(parts, "detach "+d.Attachment.Name+forced)
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
	node := func(status corev1.ConditionStatus, inUse bool, taints ...corev1.Taint) *corev1.Node {
		n := &corev1.Node{Spec: corev1.NodeSpec{Taints: taints}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		if inUse {
			n.Status.VolumesInUse = []corev1.UniqueVolumeName{device}
		}
		return n
	}
	ready, mounting, silent := node(corev1.ConditionTrue, false), node(corev1.ConditionTrue, true), node(corev1.ConditionUnknown, true)
	gone := node(corev1.ConditionUnknown, true, corev1.Taint{Key: corev1.TaintNodeOutOfService})
	once, many := corev1.ReadWriteOnce, corev1.ReadWriteMany
	const waits = `b: Waiting for detach for volume "v" Volume is already exclusively attached to one node, ` +
		`waiting on detach before it can be attached to another node`
	for _, row := range []struct {
		name         string
		uses         []Use
		have         []*storagev1.VolumeAttachment
		n1, departed *corev1.Node
		unused       time.Duration // for how long
		want         string
	}{
		{name: "first use", uses: []Use{use("a", "n1", once)}, n1: ready, want: "attach on n1"},
		{name: "two that want it first", uses: []Use{use("a", "n1", once), use("b", "n2", once)}, n1: ready, want: "attach on n1"},
		{name: "two of one node", uses: []Use{use("a", "n1", once), use("b", "n1", once)}, n1: ready, want: "attach on n1"},
		{name: "attached", uses: []Use{use("a", "n1", once)}, have: onN1(), n1: mounting},
		{
			name: "used on two nodes", uses: []Use{use("a", "n1", once), use("b", "n2", once)}, have: onN1(), n1: mounting,
			want: `b: Waiting for detach for volume "v" Volume is already used by pod(s) a`,
		},
		{name: "for many", uses: []Use{use("a", "n1", many), use("b", "n2", many)}, have: onN1(), n1: mounting, want: "attach on n2"},
		{name: "moves", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: ready, want: "detach on-n1, " + waits},
		{name: "moves when it is there no more", uses: []Use{use("b", "n2", once)}, have: onN1(going), n1: ready, want: waits},
		{name: "comes back while it goes", uses: []Use{use("b", "n1", once)}, have: onN1(going), n1: ready},
		{name: "is mounted yet", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: mounting, unused: time.Hour, want: waits},
		{name: "its node is silent", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: silent, unused: 5 * time.Minute, want: waits},
		{
			name: "after six minutes", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: silent, unused: 6 * time.Minute,
			want: "detach on-n1 by force, " + waits,
		},
		{name: "out of service", uses: []Use{use("b", "n2", once)}, have: onN1(), n1: gone, want: "detach on-n1 by force, " + waits},
		{name: "no such node, that is remembered", have: onN1(), departed: ready, want: "detach on-n1"},
		{name: "no such node, that had it mounted", have: onN1(), departed: mounting, unused: 5 * time.Minute},
		{name: "after six minutes without it", have: onN1(), departed: mounting, unused: 6 * time.Minute, want: "detach on-n1 by force"},
		{name: "nothing is known of its node", have: onN1()},
		{name: "the volume is gone", have: elsewhere(), n1: mounting, want: "detach on-n1"},
	} {
		view := View{
			Uses: row.uses, Attachments: row.have, Nodes: map[string]*corev1.Node{"n2": ready}, DeletedNodes: map[string]*corev1.Node{},
			Volumes: map[string]*corev1.PersistentVolume{"v": volume(once)}, Unused: map[string]time.Time{},
		}
		if row.n1 != nil {
			view.Nodes["n1"] = row.n1
		}
		if row.departed != nil {
			view.DeletedNodes["n1"] = row.departed
		}
		if row.unused > 0 {
			view.Unused["on-n1"] = origin.Add(-row.unused)
		}
		plan := Decide(view, origin)
		if got := text(plan); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
		if held := len(plan.Unused) > 0 && len(plan.Detach) == 0 && row.unused < MaxWait; held && !plan.Recheck.Equal(origin.Add(MaxWait-row.unused)) {
			t.Errorf("%s: recheck at %v", row.name, plan.Recheck)
		}
	}
	old := Decide(View{
		Uses: []Use{use("b", "n2", once)}, Attachments: onN1(), Nodes: map[string]*corev1.Node{"n1": silent},
		Volumes: map[string]*corev1.PersistentVolume{"v": volume(once)}, OldMessages: true,
	}, origin)
	if want := `b: Multi-Attach error for volume "v" Volume is already exclusively attached to one node and can't be attached to another`; text(old) != want {
		t.Errorf("an older release: %s, want %s", text(old), want)
	}
}

// TestAttached has a node's status tell what is there for it to mount.
func TestAttached(t *testing.T) {
	attached := func(a *storagev1.VolumeAttachment) { a.Status.Attached = true }
	for _, c := range []struct {
		have []*storagev1.VolumeAttachment
		want int
	}{{onN1(), 0}, {onN1(attached), 1}, {onN1(attached, going), 0}, {onN1(attached, func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "n2" }), 0}} {
		got := AttachedVolumes("n1", c.have, map[string]*corev1.PersistentVolume{"v": volume(corev1.ReadWriteOnce)})
		if len(got) != c.want || (c.want == 1 && got[0].Name != device) {
			t.Errorf("%+v: %v, want %d", c.have[0], got, c.want)
		}
	}
}

func TestDone(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: origin}}
	for want, pods := range map[bool][]corev1.Pod{
		true: {
			{Status: corev1.PodStatus{Phase: corev1.PodFailed}},
			{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended}}},
			{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting}}},
			{ObjectMeta: deleted},
		},
		false: {
			{},
			{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended, running}}},
		},
	} {
		for i := range pods {
			if IsTerminated(&pods[i]) != want {
				t.Errorf("%+v: want %v", pods[i], want)
			}
		}
	}
}
