package job

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// fakeAPI has one Job, and keeps the statuses that it is given. Each of its answers has a revision
// that is higher by one.
type fakeAPI struct {
	control.API

	job *batchv1.Job
	// asked is called when the Job is read.
	asked    func()
	stored   []batchv1.JobStatus
	patches  []string
	revision int
}

func (f *fakeAPI) next() string {
	f.revision++
	return strconv.Itoa(f.revision)
}

func (f *fakeAPI) Get(context.Context, podapi.Target, metav1.GetOptions) (kinds.Object, error) {
	f.asked()
	return f.job, nil
}

func (f *fakeAPI) Create(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	return obj, nil
}

func (f *fakeAPI) Update(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	job, is := obj.(*batchv1.Job)
	if !is {
		return obj, nil
	}
	f.stored = append(f.stored, job.Status)
	stored := job.DeepCopy()
	stored.ResourceVersion = f.next()
	return stored, nil
}

func (f *fakeAPI) Patch(_ context.Context, target podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	f.patches = append(f.patches, string(patch))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: target.Namespace, Name: target.Name, UID: types.UID(target.Name), ResourceVersion: f.next(),
	}}, nil
}

// Event implements control.Recorder.
func (f *fakeAPI) Event(kinds.Object, string, string, string) {}

// asking is a controller that nothing runs.
func asking(api *fakeAPI) *Controller {
	return New(control.Base{
		API: api, Views: view.NewSet(nil, nil), Log: slog.New(slog.DiscardHandler), Events: func(string) control.Recorder { return api },
	})
}

func selecting(j *batchv1.Job) {
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "sum"}}
}

// succeededOf is a pod of a Job that has succeeded, and is not let go of.
func succeededOf(its *batchv1.Job) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: its.Namespace, Name: "done", UID: "done", Finalizers: []string{Finalizer}, Labels: its.Spec.Selector.MatchLabels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(its, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
}

// TestCountedOnce has the view lose the finalizer of a pod that is counted while a Job is looked
// at, after its pods were read: it is not counted again.
func TestCountedOnce(t *testing.T) {
	its := job(3, 1, counted(1, 0, ""), selecting)
	api := &fakeAPI{job: its}
	c := asking(api)
	c.jobs.Apply(watch.Event{Type: watch.Added, Object: its})
	done := succeededOf(its)
	c.owners.Pods.Apply(watch.Event{Type: watch.Added, Object: done})
	c.owners.Pods.Apply(watch.Event{Type: watch.Added, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: its.Namespace, Name: "orphan", UID: "orphan", Labels: its.Spec.Selector.MatchLabels},
	}})
	c.memory.PodFreed(its, done, 0)
	free := done.DeepCopy()
	free.ResourceVersion, free.Finalizers = "2", nil
	api.asked = func() { c.owners.Pods.Apply(watch.Event{Type: watch.Modified, Object: free}) }

	if err := c.sync(t.Context(), view.KeyOf(its)); err != nil {
		t.Fatal(err)
	}
	if len(api.stored) == 0 {
		t.Error("the adopted pod is in no status")
	}
	for _, status := range api.stored {
		if waiting := status.UncountedTerminatedPods; status.Succeeded != 1 || (waiting != nil && len(waiting.Succeeded) > 0) {
			t.Errorf("%d are counted, and %v wait: one is counted twice", status.Succeeded, waiting)
		}
	}
}

// TestOldView has a Job left alone while the view is older than what was written for it, of the
// Job or of one of its pods: what was counted would be made again.
func TestOldView(t *testing.T) {
	its := job(3, 1, selecting)
	api := &fakeAPI{job: its}
	c := asking(api)
	shows := func(revision string) {
		shown := its.DeepCopy()
		shown.ResourceVersion = revision
		c.jobs.Apply(watch.Event{Type: watch.Modified, Object: shown})
	}
	look := func(want error, what string) {
		t.Helper()
		stored, patches := len(api.stored), len(api.patches)
		if err := c.sync(t.Context(), view.KeyOf(its)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if want != nil && len(api.stored)+len(api.patches) > stored+patches {
			t.Errorf("%s: writes all the same", what)
		}
	}
	shows("0")
	done := succeededOf(its)
	c.owners.Pods.Apply(watch.Event{Type: watch.Added, Object: done})

	look(nil, "a first look")
	if len(api.stored) != 2 || len(api.patches) != 1 {
		t.Fatalf("stored %d times, and patched %d, want one pod counted", len(api.stored), len(api.patches))
	}
	its.Status = api.stored[1]
	look(errOldView, "nothing is shown")
	shows("1")
	look(errOldView, "a status before the last, and a pod as it was")
	shows("3")
	look(errOldView, "a pod as it was")
	free := done.DeepCopy()
	free.ResourceVersion, free.Finalizers = "1", nil
	c.owners.Pods.Apply(watch.Event{Type: watch.Modified, Object: free})
	look(errOldView, "a pod as it was before it had the finalizer")
	free = done.DeepCopy()
	free.ResourceVersion, free.Finalizers = "2", nil
	c.owners.Pods.Apply(watch.Event{Type: watch.Modified, Object: free})
	look(nil, "all is shown")
	shows("1")
	look(errOldView, "a status before the last")
	its.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	shows("4")
	look(nil, "a Job that is over")
	if len(c.memory.known) > 0 {
		t.Errorf("%v is known of a Job that is over", c.memory.known)
	}
}

// TestFreedUntilShown has a pod be let go of: it is known as long as the view does not show that.
func TestFreedUntilShown(t *testing.T) {
	its := job(3, 1, selecting)
	done := succeededOf(its)
	done.ResourceVersion = "1"
	as := func(revision string, uid types.UID, finalizers ...string) *corev1.Pod {
		now := done.DeepCopy()
		now.ResourceVersion, now.UID, now.Finalizers = revision, uid, finalizers
		return now
	}
	for _, c := range []struct {
		what  string
		since int64
		shown *corev1.Pod
		want  bool
		err   error
	}{
		{"let go of, and shown as it was", 3, done, true, errOldView},
		{"let go of, and gone with that, and shown as it was", 1, done, true, errOldView},
		{"let go of, and shown without the finalizer", 3, as("3", "done"), false, nil},
		{"let go of, and adopted again since", 3, as("4", "done", Finalizer), false, nil},
		{"let go of, and shown no more", 3, nil, false, nil},
		{"gone, and shown as it was", 0, done, true, nil},
		{"gone, and shown without the finalizer", 0, as("2", "done"), false, nil},
		{"gone, and another is shown", 0, as("2", "another", Finalizer), false, nil},
		{"gone, and shown no more", 0, nil, false, nil},
	} {
		memory := NewMemory()
		memory.PodFreed(its, done, c.since)
		err := memory.CheckView(its, func(view.Key) (*corev1.Pod, bool) { return c.shown, c.shown != nil })
		if _, freed := memory.Get(view.KeyOf(its), its.UID); freed[done.UID] != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: freed is %v, and the view %v, want %t and %v", c.what, freed, err, c.want, c.err)
		}
	}
}

// TestForgottenAsItWas lets go of a pod that no Job will count, in the version that was read: a
// Job may have adopted the next, and count it.
func TestForgottenAsItWas(t *testing.T) {
	api := &fakeAPI{}
	c := asking(api)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a", ResourceVersion: "7", Finalizers: []string{Finalizer}}}
	c.owners.Pods.Apply(watch.Event{Type: watch.Added, Object: pod})
	if err := c.syncOrphan(t.Context(), view.KeyOf(pod)); err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"$deleteFromPrimitiveList/finalizers":["batch.kubernetes.io/job-tracking"],"resourceVersion":"7","uid":"a"}}`
	if len(api.patches) != 1 || api.patches[0] != want {
		t.Errorf("asked for %q, want %s", api.patches, want)
	}
}

// TestHoldOf has a pod's finalizer read by who its owner is, and whether that still counts.
func TestHoldOf(t *testing.T) {
	its, over := job(1, 1), job(1, 1, func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	})
	another := job(1, 1, func(j *batchv1.Job) { j.UID = "another" })
	its.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "sum"}}
	goes := its.DeepCopy()
	goes.DeletionTimestamp = &metav1.Time{}
	managed, managedOver := goes.DeepCopy(), over.DeepCopy()
	managed.Spec.ManagedBy, managedOver.Spec.ManagedBy = new("ex.io/queue"), new("ex.io/queue")
	selected := func(pod *corev1.Pod) *corev1.Pod {
		pod.Labels = its.Spec.Selector.MatchLabels
		return pod
	}
	pod := func(kind string, phase corev1.PodPhase, finalizers ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers}, Status: corev1.PodStatus{Phase: phase}}
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: its.Name, UID: its.UID, Controller: new(true)}}
		}
		return p
	}
	for _, c := range []struct {
		what  string
		pod   *corev1.Pod
		under *batchv1.Job
		want  FinalizerState
	}{
		{"gone", nil, its, NothingToDo},
		{"without it", pod("Job", corev1.PodRunning), its, NothingToDo},
		{"its Job's", pod("Job", corev1.PodRunning, Finalizer), its, NothingToDo},
		{"nobody's", pod("", corev1.PodRunning, Finalizer), nil, Orphan},
		{"a ReplicaSet's", pod("ReplicaSet", corev1.PodRunning, Finalizer), nil, NothingToDo},
		{"of a Job that is not there", pod("Job", corev1.PodRunning, Finalizer), nil, MaybeOrphan},
		{"of a Job before", pod("Job", corev1.PodRunning, Finalizer), another, MaybeOrphan},
		{"of a Job that goes", selected(pod("Job", corev1.PodRunning, Finalizer)), goes, NothingToDo},
		{"of a Job that goes and does not select it", pod("Job", corev1.PodRunning, Finalizer), goes, Orphan},
		{"of a Job that stays and does not select it", pod("Job", corev1.PodRunning, Finalizer), its, NothingToDo},
		{"ended, of a Job that is over", pod("Job", corev1.PodFailed, Finalizer), over, Orphan},
		{"running, of a Job that is over", pod("Job", corev1.PodRunning, Finalizer), over, NothingToDo},
		{"of a Job that goes and is managed by another", pod("Job", corev1.PodRunning, Finalizer), managed, NothingToDo},
		{"of a Job that is over and is managed by another", pod("Job", corev1.PodFailed, Finalizer), managedOver, NothingToDo},
	} {
		if got := FinalizerStateOf(c.pod, c.under); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
