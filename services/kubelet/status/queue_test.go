package status

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// fakeCopies is what a watch has shown.
type fakeCopies map[types.UID]*corev1.Pod

func (c fakeCopies) Get(uid types.UID) (*corev1.Pod, bool) {
	pod, known := c[uid]
	return pod, known
}

// TestForeignChangesAreReverted has somebody else take a pod's readiness away while the API
// cannot be reached: the kubelet says it again later.
func TestForeignChangesAreReverted(t *testing.T) {
	t.Parallel()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	b, now := NewQueue(compat, ""), time.Unix(1_700_000_000, 0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", ResourceVersion: "1"}}
	seen := fakeCopies{"u": pod}
	b.Report(pod, podstate.Pod{}, Facts{}, now)
	d := b.Next(seen)
	request, update := d.Next(now)
	if request != UpdateStatus {
		t.Fatalf("request %v, want Store", request)
	}
	taken := update.DeepCopy()
	taken.ResourceVersion = "2"
	d.HandleAnswer(taken, nil)
	b.Done(d)
	if b.Requeue(seen) {
		t.Fatal("what the API has accepted is sent again")
	}

	other := taken.DeepCopy()
	other.ResourceVersion, other.Status.Conditions = "3", nil
	seen["u"] = other
	b.Refresh(other)
	d = b.Next(seen)
	if request, _ := d.Next(now); request != UpdateStatus {
		t.Fatalf("request %v, want Store", request)
	}
	d.HandleAnswer(nil, errors.New("the API is not to be reached"))
	b.Done(d)
	if !b.Requeue(seen) {
		t.Fatal("what others wrote is left")
	}
	d = b.Next(seen)
	request, update = d.Next(now)
	if request != UpdateStatus || len(update.Status.Conditions) == 0 {
		t.Fatalf("request %v with %d conditions, want Store with those of the kubelet", request, len(update.Status.Conditions))
	}
	update = update.DeepCopy()
	update.ResourceVersion = "4"
	d.HandleAnswer(update, nil)
	b.Done(d)
	if b.Requeue(seen) {
		t.Error("what was put right is sent again")
	}
}

// TestTheFinalDeleteIsSentOnce has the watch show the object that the final delete changed
// before the answer to it comes, and a finalizer keep that object.
func TestTheFinalDeleteIsSentOnce(t *testing.T) {
	t.Parallel()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	b, now := NewQueue(compat, ""), time.Unix(1_700_000_000, 0)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", Namespace: "default", UID: "u", ResourceVersion: "1",
		DeletionTimestamp: &metav1.Time{Time: now}, Finalizers: []string{"ex.io/x"},
	}}
	seen := fakeCopies{"u": pod}
	b.Finish(pod)
	d := b.Next(seen)
	_, update := d.Next(now)
	stored := update.DeepCopy()
	stored.ResourceVersion = "2"
	d.HandleAnswer(stored, nil)
	if request, _ := d.Next(now); request != Confirm {
		t.Fatalf("request %v, want Confirm", request)
	}
	kept := stored.DeepCopy()
	kept.ResourceVersion, kept.DeletionGracePeriodSeconds = "3", new(int64(0))
	seen["u"] = kept
	b.Refresh(kept)
	d.HandleAnswer(kept, nil)
	b.Done(d)
	if d := b.Next(seen); d != nil || b.Requeue(seen) {
		t.Error("the final delete is sent again")
	}
}

// TestOnPodSandboxReady: a status that waits to be sent goes ahead of that of the sandbox (R2), which
// gives way to a later one.
func TestOnPodSandboxReady(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		b, now := NewQueue(currentCompat(t), ""), time.Unix(1_700_000_000, 0)
		pod := twoContainers(always)
		pod.ResourceVersion = "1"
		seen := fakeCopies{"u": pod}
		b.Report(pod, podstate.Pod{}, Facts{MayRun: true}, now)
		b.SandboxReady(pod, now)
		want := []string{"False:PodSandboxNotReady:no pod sandbox exists", "True::"}
		if later {
			b.Report(pod, podWith(containerIn("a", isRunning, 0)), Facts{MayRun: true}, now)
			want = want[1:]
		}
		var sent []string
		for d := b.Next(seen); d != nil; d = b.Next(seen) {
			request, update := d.Next(now)
			if request == None {
				b.Done(d)
				continue
			}
			sent = append(sent, describeStatus(update.Status, corev1.PodReadyToStartContainers))
			stored := update.DeepCopy()
			stored.ResourceVersion += "0"
			d.HandleAnswer(stored, nil)
			seen["u"] = stored
			b.Done(d)
		}
		if !slices.Equal(sent, want) {
			t.Errorf("with a later status %t: sent %q, want %q", later, sent, want)
		}
		if b.Requeue(seen) {
			t.Error("something is left to be sent")
		}
	}
}
