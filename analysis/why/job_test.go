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

// podOfIndexedJob is a failed pod that waits for its finalizer's removal, of a Job that counts
// failures by index.
func podOfIndexedJob(change ...func(*Pod)) Pod {
	return stuckPod(time.Minute, append([]func(*Pod){finished, finalizer(jobTracking), func(p *Pod) {
		p.Pod.Status.Phase = corev1.PodFailed
		p.Pod.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "2"}
		p.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "index"}, Spec: batchv1.JobSpec{BackoffLimitPerIndex: new(int32(3)), Completions: new(int32(5))}}
	}}, change...)...)
}

// TestJobKeepsItsPod tells a Job that keeps its failed pod for the next one from a controller that
// does not work.
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
		p.APIServer.Report.Refused = []inspect.Refusal{{Requester: "client:queue", Verb: "patch", Resource: "pods", Key: "default/web", Code: 403, Last: now, Count: 4}}
	}
	for what, c := range map[string]struct {
		pod   Pod
		named []string
		says  string
	}{
		"after a failure": {podOfIndexedJob(), []string{"job-keeps-pod"}, "pauses before it makes the next pod of index 2"},
		"suspended": {
			podOfIndexedJob(is(batchv1.JobSuspended), func(p *Pod) { p.Job.Spec.Suspend = new(true) }), []string{"job-keeps-pod"}, "is suspended, and does not make the next pod of index 2",
		},
		"not ended": {
			podOfIndexedJob(func(p *Pod) {
				p.Job.Spec.PodReplacementPolicy, p.Job.Spec.BackoffLimitPerIndex, p.Pod.Status.Phase = new(batchv1.Failed), nil, corev1.PodRunning
			}), []string{"job-keeps-pod"}, "replaces only failed pods, and this one has not ended: it is Running",
		},
		"never ran": {
			podOfIndexedJob(func(p *Pod) {
				p.Job.Spec.PodReplacementPolicy, p.Job.Spec.BackoffLimitPerIndex, p.Pod.Status.Phase = new(batchv1.Failed), nil, corev1.PodPending
			}), []string{"stk-04"}, "",
		},
		"not ended, and counted as failed": {
			podOfIndexedJob(func(p *Pod) { p.Job.Spec.BackoffLimitPerIndex, p.Pod.Status.Phase = nil, corev1.PodRunning }), []string{"stk-04"}, "",
		},
		"nothing said":        {podOfIndexedJob(withoutTelemetry), []string{"job-keeps-pod"}, "pauses"},
		"another's finalizer": {podOfIndexedJob(func(p *Pod) { p.Pod.Finalizers = append(p.Pod.Finalizers, "ex.io/x") }), []string{"job-keeps-pod", "stk-01"}, "pauses"},
		"just deleted":        {podOfIndexedJob(func(p *Pod) { p.Pod.DeletionTimestamp = &metav1.Time{Time: now} }), nil, ""},
		"counts them all":     {podOfIndexedJob(func(p *Pod) { p.Job.Spec.BackoffLimitPerIndex = nil }), []string{"stk-04"}, ""},
		"no controller":       {podOfIndexedJob(func(p *Pod) { p.Controllers.Report.Running = []string{garbageCollector} }), []string{"stk-04"}, ""},
		"goes":                {podOfIndexedJob(func(p *Pod) { p.Job.DeletionTimestamp = &metav1.Time{Time: now} }), []string{"stk-04"}, ""},
		"fails":               {podOfIndexedJob(is(batchv1.JobFailureTarget)), []string{"stk-04"}, ""},
		"gone":                {podOfIndexedJob(func(p *Pod) { p.Job = nil }), []string{"stk-04"}, ""},
		"succeeded":           {podOfIndexedJob(func(p *Pod) { p.Pod.Status.Phase = corev1.PodSucceeded }), []string{"stk-04"}, ""},

		"other indexes ended":      {podOfIndexedJob(ended("0,3-4", "1")), []string{"job-keeps-pod"}, "pauses"},
		"its index succeeded":      {podOfIndexedJob(ended("0,2-4", "")), []string{"stk-04"}, ""},
		"its index failed":         {podOfIndexedJob(ended("0", "1-2")), []string{"stk-04"}, ""},
		"indexes nobody can read":  {podOfIndexedJob(ended("2-,-2,x-2,2-x,1-2-3,-", "two, 2")), []string{"job-keeps-pod"}, "pauses"},
		"read beside what is not":  {podOfIndexedJob(ended("x,2", "")), []string{"stk-04"}, ""},
		"the last index":           {podOfIndexedJob(at("4")), []string{"job-keeps-pod"}, "index 4"},
		"out of range":             {podOfIndexedJob(at("5")), []string{"stk-04"}, ""},
		"below all":                {podOfIndexedJob(at("-1")), []string{"stk-04"}, ""},
		"no index":                 {podOfIndexedJob(at("")), []string{"stk-04"}, ""},
		"one completion by itself": {podOfIndexedJob(at("0"), func(p *Pod) { p.Job.Spec.Completions = nil }), []string{"job-keeps-pod"}, "index 0"},

		"managed by itself":            {podOfIndexedJob(managed(batchv1.JobControllerName)), []string{"job-keeps-pod"}, "pauses"},
		"managed by another":           {podOfIndexedJob(managed("ex.io/queue")), []string{"stk-01"}, "job index is managed by ex.io/queue"},
		"managed, and refused":         {podOfIndexedJob(managed("ex.io/queue"), refused), []string{"stk-02"}, "job index is managed by ex.io/queue"},
		"managed, just deleted":        {podOfIndexedJob(managed("ex.io/queue"), func(p *Pod) { p.Pod.DeletionTimestamp = &metav1.Time{Time: now} }), nil, ""},
		"managed, and over":            {podOfIndexedJob(managed("ex.io/queue"), is(batchv1.JobFailed)), []string{"stk-01"}, "job index is managed by ex.io/queue"},
		"managed, and held by another": {podOfIndexedJob(managed("ex.io/queue"), func(p *Pod) { p.Pod.Finalizers = append(p.Pod.Finalizers, metav1.FinalizerOrphanDependents) }), []string{"stk-01", "stk-03"}, "managed"},
		"not read":                     {podOfIndexedJob(func(p *Pod) { p.Job, p.JobErr = nil, "forbidden" }), []string{"stk-04"}, "its job, which may keep it, could not be read: forbidden"},
	} {
		report := ExplainPod(c.pod)
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

// TestManagerMayWaitForTheNode reports no controller beside a node in trouble that may wait for the
// node. The job controller leaves the pod to another controller.
func TestManagerMayWaitForTheNode(t *testing.T) {
	for _, by := range []string{batchv1.JobControllerName, "ex.io/queue"} {
		pod := podOfIndexedJob(cut, func(p *Pod) {
			p.Pod.DeletionGracePeriodSeconds, p.Controllers.Report.Running = new(int64(5)), []string{garbageCollector}
			p.Job.Spec.ManagedBy = &by
		})
		want := []string{"stk-07"}
		if by == batchv1.JobControllerName {
			want = append(want, "stk-04")
		}
		if got := ExplainPod(pod).IDs(); !slices.Equal(got, want) {
			t.Errorf("managed by %s: named %v, want %v", by, got, want)
		}
	}
}
