package why

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// counted is a failed pod that waits for its finalizer's removal, of a Job that counts failures by
// index.
func counted(change ...func(*Pod)) Pod {
	return stuck(time.Minute, append([]func(*Pod){finished, finalizer(jobTracking), func(p *Pod) {
		p.Pod.Status.Phase = corev1.PodFailed
		p.Pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "2"}
		p.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "index"}, Spec: batchv1.JobSpec{BackoffLimitPerIndex: new(int32(3)), Completions: new(int32(5))}}
	}}, change...)...)
}

// TestJobKeepsItsPod tells a Job that keeps its failed pod for the next one from a controller that
// does not do its work.
func TestJobKeepsItsPod(t *testing.T) {
	is := func(kind batchv1.JobConditionType) func(*Pod) {
		return func(p *Pod) {
			p.Job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		}
	}
	at := func(index string) func(*Pod) {
		return func(p *Pod) { p.Pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index }
	}
	ended := func(completed, failed string) func(*Pod) {
		return func(p *Pod) { p.Job.Status.CompletedIndexes, p.Job.Status.FailedIndexes = completed, &failed }
	}
	managed := func(by string) func(*Pod) { return func(p *Pod) { p.Job.Spec.ManagedBy = &by } }
	refused := func(p *Pod) {
		p.APIServer.Said.Refused = []inspect.Refusal{{Who: "client:queue", Verb: "patch", Resource: "pods", Key: "default/web", Code: 403, Last: now, Count: 4}}
	}
	for what, c := range map[string]struct {
		pod   Pod
		named []string
		says  string
	}{
		"after a failure": {counted(), []string{"job-keeps-pod"}, "pauses before it makes the next pod of index 2"},
		"suspended": {
			counted(is(batchv1.JobSuspended), func(p *Pod) { p.Job.Spec.Suspend = new(true) }), []string{"job-keeps-pod"}, "is suspended, and does not make the next pod of index 2",
		},
		"not ended": {
			counted(func(p *Pod) {
				p.Job.Spec.PodReplacementPolicy, p.Job.Spec.BackoffLimitPerIndex, p.Pod.Status.Phase = new(batchv1.Failed), nil, corev1.PodRunning
			}), []string{"job-keeps-pod"}, "replaces only failed pods, and this one has not ended: it is Running",
		},
		"never ran": {
			counted(func(p *Pod) {
				p.Job.Spec.PodReplacementPolicy, p.Job.Spec.BackoffLimitPerIndex, p.Pod.Status.Phase = new(batchv1.Failed), nil, corev1.PodPending
			}), []string{"stk-04"}, "",
		},
		"not ended, and counted as failed": {
			counted(func(p *Pod) { p.Job.Spec.BackoffLimitPerIndex, p.Pod.Status.Phase = nil, corev1.PodRunning }), []string{"stk-04"}, "",
		},
		"nothing said":        {counted(untold), []string{"job-keeps-pod"}, "pauses"},
		"another's finalizer": {counted(func(p *Pod) { p.Pod.Finalizers = append(p.Pod.Finalizers, "ex.io/x") }), []string{"job-keeps-pod", "stk-01"}, "pauses"},
		"just deleted":        {counted(func(p *Pod) { p.Pod.DeletionTimestamp = &metav1.Time{Time: now} }), nil, ""},
		"counts them all":     {counted(func(p *Pod) { p.Job.Spec.BackoffLimitPerIndex = nil }), []string{"stk-04"}, ""},
		"no controller":       {counted(func(p *Pod) { p.Controllers.Said.Running = []string{garbageCollector} }), []string{"stk-04"}, ""},
		"goes":                {counted(func(p *Pod) { p.Job.DeletionTimestamp = &metav1.Time{Time: now} }), []string{"stk-04"}, ""},
		"fails":               {counted(is(batchv1.JobFailureTarget)), []string{"stk-04"}, ""},
		"gone":                {counted(func(p *Pod) { p.Job = nil }), []string{"stk-04"}, ""},
		"succeeded":           {counted(func(p *Pod) { p.Pod.Status.Phase = corev1.PodSucceeded }), []string{"stk-04"}, ""},

		"other indexes ended":      {counted(ended("0,3-4", "1")), []string{"job-keeps-pod"}, "pauses"},
		"its index succeeded":      {counted(ended("0,2-4", "")), []string{"stk-04"}, ""},
		"its index failed":         {counted(ended("0", "1-2")), []string{"stk-04"}, ""},
		"indexes nobody can read":  {counted(ended("2-,-2,x-2,2-x,1-2-3,-", "two, 2")), []string{"job-keeps-pod"}, "pauses"},
		"read beside what is not":  {counted(ended("x,2", "")), []string{"stk-04"}, ""},
		"the last index":           {counted(at("4")), []string{"job-keeps-pod"}, "index 4"},
		"out of range":             {counted(at("5")), []string{"stk-04"}, ""},
		"below all":                {counted(at("-1")), []string{"stk-04"}, ""},
		"no index":                 {counted(at("")), []string{"stk-04"}, ""},
		"one completion by itself": {counted(at("0"), func(p *Pod) { p.Job.Spec.Completions = nil }), []string{"job-keeps-pod"}, "index 0"},

		"managed by itself":            {counted(managed(batchv1.JobControllerName)), []string{"job-keeps-pod"}, "pauses"},
		"managed by another":           {counted(managed("ex.io/queue")), []string{"stk-01"}, "job index is managed by ex.io/queue"},
		"managed, and refused":         {counted(managed("ex.io/queue"), refused), []string{"stk-02"}, "job index is managed by ex.io/queue"},
		"managed, just deleted":        {counted(managed("ex.io/queue"), func(p *Pod) { p.Pod.DeletionTimestamp = &metav1.Time{Time: now} }), nil, ""},
		"managed, and over":            {counted(managed("ex.io/queue"), is(batchv1.JobFailed)), []string{"stk-01"}, "job index is managed by ex.io/queue"},
		"managed, and held by another": {counted(managed("ex.io/queue"), func(p *Pod) { p.Pod.Finalizers = append(p.Pod.Finalizers, metav1.FinalizerOrphanDependents) }), []string{"stk-01", "stk-03"}, "managed"},
		"not read":                     {counted(func(p *Pod) { p.Job, p.JobErr = nil, "forbidden" }), []string{"stk-04"}, "its job, which may keep it, could not be read: forbidden"},
	} {
		report := OfPod(c.pod)
		if got := report.IDs(); !slices.Equal(got, c.named) {
			t.Errorf("%s: named %v, want %v", what, got, c.named)
			continue
		}
		if slices.Contains(c.named, "job-keeps-pod") && report.Findings[0].Title() != "job-keeps-pod" {
			t.Errorf("%s: its title is %q", what, report.Findings[0].Title())
		}
		if c.says != "" && !strings.Contains(strings.Join(report.Findings[0].Evidence, "; "), c.says) {
			t.Errorf("%s: evidence is %q, want that the Job %s", what, report.Findings[0].Evidence, c.says)
		}
	}
}

// TestManagerMayWaitForTheNode names nobody beside a node that has trouble who may wait for it: not
// the job controller, which leaves the pod to another.
func TestManagerMayWaitForTheNode(t *testing.T) {
	for _, by := range []string{batchv1.JobControllerName, "ex.io/queue"} {
		pod := counted(cut, func(p *Pod) {
			p.Pod.DeletionGracePeriodSeconds, p.Controllers.Said.Running = new(int64(5)), []string{garbageCollector}
			p.Job.Spec.ManagedBy = &by
		})
		want := []string{"stk-07"}
		if by == batchv1.JobControllerName {
			want = append(want, "stk-04")
		}
		if got := OfPod(pod).IDs(); !slices.Equal(got, want) {
			t.Errorf("managed by %s: named %v, want %v", by, got, want)
		}
	}
}
