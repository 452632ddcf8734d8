package deletion_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/deletion"
)

var now = time.Unix(1_700_000_000, 0)

// podPolicy is the pod's own rule in short (API-11); the real one is the registry's.
func podPolicy() deletion.Policy {
	return deletion.Policy{
		Kind: schema.GroupKind{Kind: "Pod"},
		Graceful: func(obj kinds.Object, asked *int64) (int64, bool) {
			pod, _ := obj.(*corev1.Pod)
			switch {
			case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
				return 0, true
			case asked != nil:
				return *asked, true
			case pod.Spec.TerminationGracePeriodSeconds != nil:
				return *pod.Spec.TerminationGracePeriodSeconds, true
			}
			return 0, true
		},
	}
}

func mapPolicy() deletion.Policy { return deletion.Policy{Kind: schema.GroupKind{Kind: "ConfigMap"}} }

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1", ResourceVersion: "7", Generation: 1},
		Spec:       corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30))},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// deleting sets the deadline to seconds from now, and the grace in force.
func deleting(seconds int, grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp = new(metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)))
		p.DeletionGracePeriodSeconds = &grace
		p.Generation = 2
	}
}

func held(finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Finalizers = finalizers }
}

// orphaning asks the old way and, unless policy is empty, the new way too.
func orphaning(orphan bool, policy metav1.DeletionPropagation) metav1.DeleteOptions {
	opts := metav1.DeleteOptions{OrphanDependents: &orphan} //nolint:staticcheck // clients still send it
	if policy != "" {
		opts.PropagationPolicy = &policy
	}
	return opts
}

func grace(seconds int64) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: &seconds}
}

// show is a decision in one line: outcome, seconds from now to the deadline, grace in
// force, generation, finalizers.
func show(d deletion.Decision) string {
	if d.Outcome == deletion.Refused {
		return "Refused: " + d.Err.Error()
	}
	text := d.Outcome.String()
	if at := d.Object.GetDeletionTimestamp(); at != nil {
		text += fmt.Sprintf(" %+ds", int(at.Sub(now)/time.Second))
	}
	if g := d.Object.GetDeletionGracePeriodSeconds(); g != nil {
		text += fmt.Sprintf(" grace=%d", *g)
	}
	text += fmt.Sprintf(" gen=%d", d.Object.GetGeneration())
	if f := d.Object.GetFinalizers(); len(f) > 0 {
		text += fmt.Sprint(" ", f)
	}
	return text
}

// decide also checks that the object that was asked about is left alone.
func decide(t *testing.T, obj kinds.Object, policy deletion.Policy, opts metav1.DeleteOptions) deletion.Decision {
	t.Helper()
	before := obj.DeepCopyObject()
	d := deletion.Decide(obj, policy, opts, now)
	if diff := cmp.Diff(before, obj); diff != "" {
		t.Errorf("Decide changed the object it was given:\n%s", diff)
	}
	if (d.Err != nil) != (d.Outcome == deletion.Refused) {
		t.Errorf("outcome %v with error %v", d.Outcome, d.Err)
	}
	return d
}

func TestPodDecisions(t *testing.T) {
	unscheduled := func(p *corev1.Pod) { p.Spec.NodeName = ""; p.Status.Phase = corev1.PodPending }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	own := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	propagate := func(policy metav1.DeletionPropagation, opts metav1.DeleteOptions) metav1.DeleteOptions {
		opts.PropagationPolicy = &policy
		return opts
	}
	none := metav1.DeleteOptions{}
	rows := []struct {
		id   string
		pod  *corev1.Pod
		opts metav1.DeleteOptions
		want string
	}{
		{"TD-015 no option takes the pod's own grace", pod(), none, "Marked +30s grace=30 gen=2"},
		{"TD-016 an option wins", pod(), grace(32), "Marked +32s grace=32 gen=2"},
		{"TD-017 no later delete extends", pod(deleting(30, 30)), grace(32), "Unchanged +30s grace=30 gen=2"},
		{"TD-018 a later delete shortens", pod(deleting(50, 60)), grace(20), "Marked +10s grace=20 gen=2"},
		{"TD-019 a later delete ends it", pod(deleting(30, 30)), grace(0), "MarkedAndRemoved +0s grace=0 gen=2"},
		{"TD-020 a caller inside the server that gives no options means 0", pod(), grace(0), "MarkedAndRemoved +0s grace=0 gen=2"},
		{"TD-004 past grace goes at once", pod(deleting(0, 0)), none, "Removed +0s grace=0 gen=2"},
		{"TD-005 a finalizer keeps a forced pod", pod(held("foo.com/x")), grace(0), "Marked +0s grace=0 gen=2 [foo.com/x]"},
		{"TD-030 graceful, running", pod(), grace(30), "Marked +30s grace=30 gen=2"},
		{"TD-032 generation rises once", pod(), grace(60), "Marked +60s grace=60 gen=2"},
		{"TD-034 grace 31", pod(), grace(31), "Marked +31s grace=31 gen=2"},

		{"API-11 unscheduled", pod(unscheduled), grace(30), "MarkedAndRemoved +0s grace=0 gen=2"},
		{"API-11 succeeded", pod(phase(corev1.PodSucceeded)), none, "MarkedAndRemoved +0s grace=0 gen=2"},
		{"API-11 failed", pod(phase(corev1.PodFailed)), grace(60), "MarkedAndRemoved +0s grace=0 gen=2"},
		{"API-12 a kind without generations keeps 0", pod(func(p *corev1.Pod) { p.Generation = 0 }), none, "Marked +30s grace=30 gen=0"},
		{"API-13 negative is one second", pod(), grace(-1), "Marked +1s grace=1 gen=2"},
		{"API-13 any negative is one second", pod(), grace(-90), "Marked +1s grace=1 gen=2"},
		{"API-14 own grace 0 is a forced delete", pod(own(0)), none, "MarkedAndRemoved +0s grace=0 gen=2"},
		{"API-14 own negative grace is one second", pod(own(-5)), none, "Marked +1s grace=1 gen=2"},

		{"API-20 no grace recorded", pod(deleting(5, 0), func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = nil }), grace(9), "Removed +5s gen=2"},
		{"API-21 absent", pod(deleting(12, 30)), none, "Unchanged +12s grace=30 gen=2"},
		{"API-22 equal", pod(deleting(12, 30)), grace(30), "Unchanged +12s grace=30 gen=2"},
		{"API-23 nothing else of the options counts", pod(deleting(12, 30)), propagate("Foreground", grace(40)), "Unchanged +12s grace=30 gen=2"},
		{"API-24 the deadline moves by the difference", pod(deleting(25, 30)), grace(29), "Marked +24s grace=29 gen=2"},
		{"API-25 never into the past; one second stays", pod(deleting(5, 60)), grace(10), "Marked +0s grace=1 gen=2"},
		{"API-25 exactly now is not past", pod(deleting(50, 60)), grace(10), "Marked +0s grace=10 gen=2"},
		{"API-25 grace 0 stays 0", pod(deleting(5, 60)), grace(0), "MarkedAndRemoved +0s grace=0 gen=2"},
		{"API-25 long overdue", pod(deleting(-100, 60)), grace(59), "Marked +0s grace=1 gen=2"},

		{"API-41 the kubelet's final delete", pod(deleting(12, 30), phase(corev1.PodSucceeded)), grace(0), "MarkedAndRemoved +0s grace=0 gen=2"},
		{"API-42 past grace, held: nothing new", pod(deleting(-3, 0), held("a.b/c")), none, "Marked -3s grace=0 gen=2 [a.b/c]"},
		{"API-42 past grace, held, deadline ahead", pod(deleting(9, 0), held("a.b/c")), grace(4), "Marked +0s grace=0 gen=2 [a.b/c]"},
		{"API-49 order of the others is kept", pod(held("b.c/d", "orphan", "a.b/c")), propagate("Foreground", none), "Marked +30s grace=30 gen=2 [b.c/d a.b/c foregroundDeletion]"},
		{"API-49 the object's own wins over the default", pod(held("orphan")), none, "Marked +30s grace=30 gen=2 [orphan]"},
		{"API-49 Background strips both", pod(held("orphan")), propagate("Background", none), "Marked +30s grace=30 gen=2"},
		{"API-49 the old way to orphan", pod(), orphaning(true, ""), "Marked +30s grace=30 gen=2 [orphan]"},
		{"API-49 the old way not to", pod(held("orphan")), orphaning(false, ""), "Marked +30s grace=30 gen=2"},
		{"API-50 Foreground holds a forced pod", pod(), propagate("Foreground", grace(0)), "Marked +0s grace=0 gen=2 [foregroundDeletion]"},
		{"API-50 Orphan holds a forced pod", pod(), propagate("Orphan", grace(0)), "Marked +0s grace=0 gen=2 [orphan]"},
		{"API-51 past grace a collector's finalizer may change", pod(deleting(0, 0), held("foregroundDeletion")), propagate("Orphan", none), "Marked +0s grace=0 gen=2 [orphan]"},
		{"API-51 past grace the last one may go", pod(deleting(0, 0), held("foregroundDeletion")), propagate("Background", none), "Removed +0s grace=0 gen=2 [foregroundDeletion]"},
		{"API-51 with grace in force it may not", pod(deleting(9, 30), held("orphan")), propagate("Background", none), "Unchanged +9s grace=30 gen=2 [orphan]"},
		{"API-51 unless the grace shrinks too", pod(deleting(30, 30), held("orphan")), propagate("Background", grace(9)), "Marked +9s grace=9 gen=2"},
		{"API-52 forced and held", pod(deleting(30, 30), held("a.b/c")), grace(0), "Marked +0s grace=0 gen=2 [a.b/c]"},
	}
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			if got := show(decide(t, row.pod, podPolicy(), row.opts)); got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
		})
	}
}

// TestBeforeDelete is upstream's table of an object that is being deleted already, its
// deadline ahead; it is API-26 too.
func TestBeforeDelete(t *testing.T) {
	graceful := []deletion.Outcome{deletion.Marked, deletion.MarkedAndRemoved}
	rows := []struct {
		stored, asked             int64
		storedAfter, askedAfter   int64
		wantGraceful, wantNothing bool
	}{
		{-1, -1, 1, 1, false, true},
		{-1, 0, 0, 0, true, false},
		{-1, 1, 1, 1, false, true},
		{-1, 2, 1, 2, false, true},
		{0, -1, 0, 1, false, false},
		{0, 0, 0, 0, false, false},
		{0, 1, 0, 1, false, false},
		{0, 2, 0, 2, false, false},
		{1, -1, 1, 1, false, true},
		{1, 0, 0, 0, true, false},
		{1, 1, 1, 1, false, true},
		{1, 2, 1, 2, false, true},
		{2, -1, 1, 1, true, false},
		{2, 0, 0, 0, true, false},
		{2, 1, 1, 1, true, false},
		{2, 2, 2, 2, false, true},
	}
	for _, row := range rows {
		t.Run(fmt.Sprintf("TD-002 stored %d asked %d", row.stored, row.asked), func(t *testing.T) {
			d := decide(t, pod(deleting(1000, row.stored)), podPolicy(), grace(row.asked))
			if got := *d.Object.GetDeletionGracePeriodSeconds(); got != row.storedAfter {
				t.Errorf("stored grace %d, want %d", got, row.storedAfter)
			}
			if *d.Grace != row.askedAfter {
				t.Errorf("asked grace %d, want %d", *d.Grace, row.askedAfter)
			}
			if got := slices.Contains(graceful, d.Outcome); got != row.wantGraceful {
				t.Errorf("%v: graceful %t, want %t", d.Outcome, got, row.wantGraceful)
			}
			if got := d.Outcome == deletion.Unchanged; got != row.wantNothing {
				t.Errorf("%v: pending %t, want %t", d.Outcome, got, row.wantNothing)
			}
		})
	}
}

func TestKindsWithoutGracefulDeletion(t *testing.T) {
	object := func(at *time.Time, finalizers ...string) *corev1.ConfigMap {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Generation: 1, Finalizers: finalizers}}
		if at != nil {
			m.DeletionTimestamp = new(metav1.NewTime(*at))
		}
		return m
	}
	rows := []struct {
		id   string
		obj  *corev1.ConfigMap
		want string
	}{
		{"API-10 nothing holds it", object(nil), "Removed gen=1"},
		{"TD-006 finalizers keep it", object(nil, "a.b/c", "d.e/f"), "Marked +0s grace=0 gen=2 [a.b/c d.e/f]"},
		{"TD-007 unset", object(nil, "a.b/c"), "Marked +0s grace=0 gen=2 [a.b/c]"},
		{"TD-007 in the future", object(new(now.Add(time.Hour)), "a.b/c"), "Marked +0s grace=0 gen=1 [a.b/c]"},
		{"TD-007 in the past", object(new(now.Add(-time.Hour)), "a.b/c"), "Marked -3600s grace=0 gen=1 [a.b/c]"},
	}
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			if got := show(decide(t, row.obj, mapPolicy(), grace(60))); got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
		})
	}
	t.Run("API-49 a kind may orphan by default", func(t *testing.T) {
		policy := mapPolicy()
		policy.Propagation = metav1.DeletePropagationOrphan
		if got, want := show(decide(t, object(nil), policy, grace(0))), "Marked +0s grace=0 gen=2 [orphan]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestDeadlineMayPass(t *testing.T) {
	policy := podPolicy()
	policy.DeadlineMayPass = true
	d := decide(t, pod(deleting(5, 60)), policy, grace(10))
	if got, want := show(d), "Marked -45s grace=10 gen=2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWholeSeconds(t *testing.T) {
	at := now.Add(700 * time.Millisecond)
	marked := deletion.Decide(pod(), podPolicy(), metav1.DeleteOptions{}, at).Object
	if got := marked.GetDeletionTimestamp().Time; !got.Equal(now.Add(30 * time.Second)) {
		t.Errorf("deadline %v, want %v", got, now.Add(30*time.Second))
	}
	// A force at the same instant may not move the deadline before it.
	forced := deletion.Decide(marked, podPolicy(), grace(0), at).Object
	if got := forced.GetDeletionTimestamp().Time; !got.Equal(now) {
		t.Errorf("deadline %v, want %v", got, now)
	}
}

func TestRefusals(t *testing.T) {
	before := func(uid types.UID, rv string) metav1.DeleteOptions {
		opts := grace(0)
		opts.Preconditions = &metav1.Preconditions{}
		if uid != "" {
			opts.Preconditions.UID = &uid
		}
		if rv != "" {
			opts.Preconditions.ResourceVersion = &rv
		}
		return opts
	}
	const moved = `Operation cannot be fulfilled on Pod "web": the `
	rows := []struct {
		id   string
		pod  *corev1.Pod
		opts metav1.DeleteOptions
		code int32
		want string
	}{
		{
			"API-60 UID", pod(), before("u0", ""), 409,
			moved + "UID in the precondition (u0) does not match the UID in record (u1). The object might have been deleted and then recreated",
		},
		{
			"API-61 ResourceVersion", pod(), before("u1", "6"), 409,
			moved + "ResourceVersion in the precondition (6) does not match the ResourceVersion in record (7). The object might have been modified",
		},
		{
			"API-62 a mismatch wins over being deleted already", pod(deleting(9, 30)), before("u0", "7"), 409,
			moved + "UID in the precondition (u0) does not match the UID in record (u1). The object might have been deleted and then recreated",
		},
		{
			"API-04 both ways to say orphan", pod(), orphaning(true, metav1.DeletePropagationOrphan), 422,
			`DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set`,
		},
		{
			"API-04 an unknown policy", pod(),
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletionPropagation("Sideways"))},
			422,
			`DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil"`,
		},
		{
			"API-04 an unknown dry run", pod(),
			metav1.DeleteOptions{DryRun: []string{"Some"}},
			422,
			`DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`,
		},
	}
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			d := decide(t, row.pod, podPolicy(), row.opts)
			var status apierrors.APIStatus
			status, _ = d.Err.(apierrors.APIStatus)
			if status == nil || status.Status().Code != row.code || d.Err.Error() != row.want {
				t.Errorf("\n got %v\nwant %d %s", d.Err, row.code, row.want)
			}
		})
	}
	t.Run("API-62 the right ones pass", func(t *testing.T) {
		if d := decide(t, pod(), podPolicy(), before("u1", "7")); d.Outcome != deletion.MarkedAndRemoved {
			t.Error(show(d))
		}
	})
}

func TestRemovedByUpdate(t *testing.T) {
	rows := []struct {
		id              string
		updated, stored kinds.Object
		want            bool
	}{
		{"API-53 the last finalizer goes, past grace", pod(deleting(0, 0)), pod(deleting(0, 0), held("a.b/c")), true},
		{"TD-005 a finalizer stays", pod(deleting(0, 0), held("a.b/c")), pod(deleting(0, 0), held("a.b/c")), false},
		{"TD-006 one of two stays", pod(deleting(0, 0), held("a.b/c")), pod(deleting(0, 0), held("a.b/c", "d.e/f")), false},
		{"API-54 grace is in force", pod(deleting(9, 30)), pod(deleting(9, 30), held("a.b/c")), false},
		{"not being deleted", pod(), pod(held("a.b/c")), false},
		{"a namespace that is being emptied", namespace("kubernetes"), namespace("kubernetes"), false},
		{"an emptied namespace", namespace(), namespace("kubernetes"), true},
	}
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			if got := deletion.RemovedByUpdate(row.updated, row.stored); got != row.want {
				t.Errorf("got %t, want %t", got, row.want)
			}
		})
	}
}

func namespace(finalizers ...corev1.FinalizerName) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: new(metav1.NewTime(now))},
		Spec:       corev1.NamespaceSpec{Finalizers: finalizers},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
}

func TestNamespaces(t *testing.T) {
	policy := deletion.Policy{Kind: schema.GroupKind{Kind: "Namespace"}}
	live := namespace("kubernetes")
	live.DeletionTimestamp, live.Status.Phase = nil, corev1.NamespaceActive
	d := decide(t, live, policy, metav1.DeleteOptions{})
	marked, _ := d.Object.(*corev1.Namespace)
	if d.Outcome != deletion.Marked || marked.Status.Phase != corev1.NamespaceTerminating || marked.DeletionTimestamp == nil {
		t.Errorf("first delete: %s phase %s", show(d), marked.Status.Phase)
	}
	if d := decide(t, namespace("kubernetes"), policy, grace(0)); d.Outcome != deletion.Unchanged {
		t.Errorf("while it is being emptied: %s", show(d))
	}
	if d := decide(t, namespace(), policy, metav1.DeleteOptions{}); d.Outcome != deletion.Removed {
		t.Errorf("when it is empty: %s", show(d))
	}
}

// TestGraceOnlyShrinks walks all pairs of graces and all deadlines around now.
func TestGraceOnlyShrinks(t *testing.T) {
	for inForce := int64(1); inForce <= 12; inForce++ {
		for left := -12; left <= int(inForce); left++ {
			for asked := int64(-1); asked <= 13; asked++ {
				stored := pod(deleting(left, inForce))
				d := decide(t, stored, podPolicy(), grace(asked))
				where := fmt.Sprintf("in force %d, %d s left, asked %d: %s", inForce, left, asked, show(d))
				after := *d.Object.GetDeletionGracePeriodSeconds()
				if after > inForce {
					t.Fatal(where, "grace grew")
				}
				at := d.Object.GetDeletionTimestamp()
				if at.After(stored.DeletionTimestamp.Time) && left >= 0 {
					t.Fatal(where, "the deadline moved away")
				}
				if d.Outcome != deletion.Unchanged && at.Time.Before(now) {
					t.Fatal(where, "the deadline was put into the past")
				}
				if (d.Outcome == deletion.MarkedAndRemoved) != (asked == 0) {
					t.Fatal(where, "only grace 0 removes")
				}
			}
		}
	}
}
