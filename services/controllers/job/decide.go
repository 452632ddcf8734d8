// Package job runs pods to completion for a Job (CTL-33). decide.go says what to do about one Job:
// which pods to create and delete, which to count and free of their finalizer, and whether the Job
// is over. count.go, over.go, policy.go, backoff.go, index.go and perindex.go are its parts and as
// pure as it is. controller.go watches, claims, decides and acts.
//
// Each pod holds the finalizer batch.kubernetes.io/job-tracking until it is counted, by three
// writes: its UID into status.uncountedTerminatedPods, the finalizer off the pod, the UID out of
// the status and into a number. A crash between two of them loses no pod and counts none twice.
package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Burst is the largest number of pods that are created or deleted at once.
const Burst = 500

// View is the state of one Job.
type View struct {
	Job  *batchv1.Job
	Pods []*corev1.Pod
	// Stale says that the view does not show the last writes yet.
	Stale bool
	// NamespaceTerminating says that the namespace is being deleted, so no pod is replaced any
	// more.
	NamespaceTerminating bool
	// Freed are pods whose finalizer was removed, though the view still shows it.
	Freed map[types.UID]bool
	// Failures are the counted failures since the last success.
	Failures Failures
}

// Plan is what to do, in this order.
type Plan struct {
	Events []Event
	// Delete comes before Create; never both.
	Delete []*corev1.Pod
	Create []*corev1.Pod
	// Status is to be stored before Free lose their finalizers: it has their UIDs.
	// [StatusAfterFreeing] returns the status after that.
	Status batchv1.JobStatus
	Free   []*corev1.Pod
	// Target is the condition with which the Job ends once all its pods are counted; nil if it does
	// not end.
	Target *batchv1.JobCondition
	// Idle is a suspended Job that needs no successful pod: it may end without having started.
	Idle bool
	// Failures are those since the last success.
	Failures Failures
	// RequeueAfter is when to sync again; 0 means when something changes.
	RequeueAfter time.Duration
}

// Event is one event about the Job.
type Event struct{ Type, Reason, Message string }

// planning is a plan that is being made.
type planning struct {
	View
	Plan
	now    time.Time
	active []*corev1.Pod
	// succeeded and failed include counted pods, pods that wait to be counted, and new ones.
	succeeded, failed int32
	terminating       int32
	doneIndexes       indexes // succeeded before, or by new pods
	failedIndexes     indexes // failed for good; nil unless each index has a backoff limit
	// heldPods has the failed pod at each index that waits for its successor.
	heldPods map[int]*corev1.Pod
}

// Decide returns what to do at now (syncJob). A finished Job needs nothing.
func Decide(v View, now time.Time) Plan {
	s := &planning{View: v, now: now}
	s.Status = *v.Job.Status.DeepCopy()
	s.Plan.Failures = v.Failures
	s.Idle = s.isSuspended() && v.Job.Spec.Completions != nil && *v.Job.Spec.Completions == 0
	if IsFinished(v.Job) {
		return s.Plan
	}
	s.countPods()
	s.countIndexes()
	if s.Status.StartTime == nil && !s.isSuspended() {
		s.Status.StartTime = new(workload.Stamp(now))
	}
	if s.Target = s.endCondition(); s.Target != nil {
		s.Delete = s.active
	} else if !s.Stale && s.Job.DeletionTimestamp == nil {
		s.planPods()
		s.updateSuspended()
	}
	if s.Target == nil {
		s.Target = s.completedCondition()
	}
	if s.Stale {
		s.Target = nil // there may be pods that the view does not show
	}
	s.planCounting()
	s.setCounts()
	return s.Plan
}

// IsFinished reports whether a Job is complete or has failed.
func IsFinished(job *batchv1.Job) bool {
	return findCondition(job.Status.Conditions, batchv1.JobComplete) != nil || findCondition(job.Status.Conditions, batchv1.JobFailed) != nil
}

func findCondition(conditions []batchv1.JobCondition, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range conditions {
		if conditions[i].Type == kind && conditions[i].Status == corev1.ConditionTrue {
			return &conditions[i]
		}
	}
	return nil
}

// planPods decides how many pods there should be (manageJob).
func (s *planning) planPods() {
	have := int32(len(s.active))
	want := s.wantedPods()
	extra := s.excessPods(max(have-want, 0))
	if len(extra) > 0 {
		s.Delete = extra[:min(len(extra), Burst)]
		return
	}
	missing := want - have
	if s.replacesFailedOnly() {
		missing -= s.terminating
	}
	if missing <= 0 || s.isSuspended() {
		return
	}
	if wait := s.Plan.Failures.remainingPause(s.now); wait > 0 && !s.isPerIndex() {
		s.RequeueAfter = shorter(s.RequeueAfter, wait)
		return
	}
	s.planCreate(int(min(missing, Burst)))
}

// wantedPods returns how many pods should run.
func (s *planning) wantedPods() int32 {
	parallelism := valueOr(s.Job.Spec.Parallelism, 1)
	switch {
	case s.isSuspended():
		return 0
	case s.Job.Spec.Completions != nil || s.Job.Spec.Parallelism == nil:
		return max(min(valueOr(s.Job.Spec.Completions, 1)-s.succeeded, parallelism), 0)
	case s.succeeded > 0: // a work queue that somebody has emptied: the others end by themselves
		return int32(len(s.active))
	}
	return parallelism
}

// excessPods returns the active pods to delete if n are too many. Pods with a duplicate or invalid
// index are always among them.
func (s *planning) excessPods(n int32) []*corev1.Pod {
	var extra []*corev1.Pod
	rest := s.active
	if s.isIndexed() {
		extra, rest = s.splitDuplicates(rest)
	}
	if more := int(n) - len(extra); more > 0 {
		extra = append(extra, workload.ToDelete(rest, rest, more, s.now)...)
	}
	return extra
}

// planCreate plans n new pods.
func (s *planning) planCreate(n int) {
	if !s.isIndexed() {
		for range n {
			s.Create = append(s.Create, s.newPod(-1))
		}
		return
	}
	for _, index := range s.dueIndexes(s.pendingIndexes(n)) {
		s.Create = append(s.Create, s.newPod(index))
	}
}

// updateSuspended updates the condition Suspended. When the Job is resumed, its start time is set
// again.
func (s *planning) updateSuspended() {
	known := findCondition(s.Status.Conditions, batchv1.JobSuspended)
	switch {
	case s.isSuspended() && known == nil:
		s.removeCondition(batchv1.JobSuspended)
		s.addCondition(s.newCondition(batchv1.JobSuspended, "JobSuspended", "Job suspended"))
		s.Events = append(s.Events, Event{corev1.EventTypeNormal, "Suspended", "Job suspended"})
	case !s.isSuspended() && known != nil:
		s.removeCondition(batchv1.JobSuspended)
		resumed := s.newCondition(batchv1.JobSuspended, "JobResumed", "Job resumed")
		resumed.Status = corev1.ConditionFalse
		s.addCondition(resumed)
		s.Events = append(s.Events, Event{corev1.EventTypeNormal, "Resumed", "Job resumed"})
		s.Status.StartTime = new(workload.Stamp(s.now))
	}
}

func (s *planning) isSuspended() bool { return s.Job.Spec.Suspend != nil && *s.Job.Spec.Suspend }

func (s *planning) isIndexed() bool {
	return s.Job.Spec.CompletionMode != nil && *s.Job.Spec.CompletionMode == batchv1.IndexedCompletion
}

// replacesFailedOnly reports whether a pod is replaced only after it has ended.
func (s *planning) replacesFailedOnly() bool { return ReplacesFailedOnly(s.Job) }

// ReplacesFailedOnly reports whether podReplacementPolicy is Failed, which a podFailurePolicy
// implies.
func ReplacesFailedOnly(job *batchv1.Job) bool {
	if job.Spec.PodReplacementPolicy != nil {
		return *job.Spec.PodReplacementPolicy == batchv1.Failed
	}
	return job.Spec.PodFailurePolicy != nil
}

func (s *planning) newCondition(kind batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	stamp := workload.Stamp(s.now)
	return batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, LastProbeTime: stamp, LastTransitionTime: stamp, Reason: reason, Message: message,
	}
}

func (s *planning) addCondition(condition batchv1.JobCondition) {
	s.Status.Conditions = append(slices.Clone(s.Status.Conditions), condition)
}

func (s *planning) removeCondition(kind batchv1.JobConditionType) {
	s.Status.Conditions = slices.DeleteFunc(slices.Clone(s.Status.Conditions), func(c batchv1.JobCondition) bool { return c.Type == kind })
}

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// shorter returns the shorter of two waits; 0 means no wait.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
