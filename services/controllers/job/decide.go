// Package job runs pods to their end for a Job (CTL-33). decide.go says what is to be done
// about one Job: which pods to make and delete, which to count and let go of, and whether it
// is over; count.go, over.go, policy.go, backoff.go, index.go and perindex.go are its parts and as pure as
// it is; controller.go watches, claims, asks and acts.
//
// Each pod holds the finalizer batch.kubernetes.io/job-tracking until it is counted, and goes
// through three writes: its UID into status.uncountedTerminatedPods, the finalizer off the pod,
// the UID out of the status and into a number. A crash between two of them loses nothing and
// counts nothing twice.
package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Burst is how many pods are made or deleted at most in one go.
const Burst = 500

// View is what is known of one Job.
type View struct {
	Job  *batchv1.Job
	Pods []*corev1.Pod
	// Stale says that what was asked for last is not in the view yet.
	Stale bool
	// Ending says that the namespace is being deleted: no pod has a successor any more.
	Ending bool
	// Freed are pods that were let go of already, though the view still shows the finalizer.
	Freed map[types.UID]bool
	// Failures are those since the last success that were counted before.
	Failures Failures
}

// Plan is what to do, in this order.
type Plan struct {
	Tell []Event
	// Delete goes before Create; never both.
	Delete []*corev1.Pod
	Create []*corev1.Pod
	// Status is to be stored before Free are let go of: it has their UIDs. What follows
	// from that is [Settle]'s.
	Status batchv1.JobStatus
	Free   []*corev1.Pod
	// Target is why the Job is over, as soon as all its pods are counted; nil if it is not.
	Target *batchv1.JobCondition
	// Idle is a Job that is suspended and wants no pod to succeed: it may be over without having begun.
	Idle bool
	// Failures are those since the last success.
	Failures Failures
	// Again is how long to wait before the next look; 0 is until something changes.
	Again time.Duration
}

// Event is one event about the Job.
type Event struct{ Type, Reason, Message string }

// step is a plan in the making.
type step struct {
	View
	Plan
	now    time.Time
	active []*corev1.Pod
	// succeeded and failed are counted ones, those that wait to be, and new ones.
	succeeded, failed int32
	terminating       int32
	done              indexes // that had succeeded before, and with the new ones
	lost              indexes // that have failed for good; nil unless each index fails by itself
	// held is the failed pod at an index that waits for its successor.
	held map[int]*corev1.Pod
}

// Decide says what is to be done at now (syncJob). A Job that is over is left alone.
func Decide(v View, now time.Time) Plan {
	s := &step{View: v, now: now}
	s.Status = *v.Job.Status.DeepCopy()
	s.Plan.Failures = v.Failures
	s.Idle = s.suspended() && v.Job.Spec.Completions != nil && *v.Job.Spec.Completions == 0
	if Over(v.Job) {
		return s.Plan
	}
	s.tally()
	s.tallyIndexes()
	if s.Status.StartTime == nil && !s.suspended() {
		s.Status.StartTime = new(workload.Stamp(now))
	}
	if s.Target = s.over(); s.Target != nil {
		s.Delete = s.active
	} else if !s.Stale && s.Job.DeletionTimestamp == nil {
		s.manage()
		s.suspend()
	}
	if s.Target == nil {
		s.Target = s.completed()
	}
	if s.Stale {
		s.Target = nil // there may be pods that the view does not show
	}
	s.collect()
	s.numbers()
	return s.Plan
}

// Over reports whether a Job is complete or has failed.
func Over(job *batchv1.Job) bool {
	return find(job.Status.Conditions, batchv1.JobComplete) != nil || find(job.Status.Conditions, batchv1.JobFailed) != nil
}

func find(conditions []batchv1.JobCondition, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range conditions {
		if conditions[i].Type == kind && conditions[i].Status == corev1.ConditionTrue {
			return &conditions[i]
		}
	}
	return nil
}

// manage decides how many pods there should be (manageJob).
func (s *step) manage() {
	have := int32(len(s.active))
	want := s.want()
	extra := s.extra(max(have-want, 0))
	if len(extra) > 0 {
		s.Delete = extra[:min(len(extra), Burst)]
		return
	}
	missing := want - have
	if s.replacesFailedOnly() {
		missing -= s.terminating
	}
	if missing <= 0 || s.suspended() {
		return
	}
	if wait := s.Plan.Failures.left(s.now); wait > 0 && !s.perIndex() {
		s.Again = shorter(s.Again, wait)
		return
	}
	s.create(int(min(missing, Burst)))
}

// want is how many pods should run.
func (s *step) want() int32 {
	parallelism := valueOr(s.Job.Spec.Parallelism, 1)
	switch {
	case s.suspended():
		return 0
	case s.Job.Spec.Completions != nil || s.Job.Spec.Parallelism == nil:
		return max(min(valueOr(s.Job.Spec.Completions, 1)-s.succeeded, parallelism), 0)
	case s.succeeded > 0: // a work queue that somebody has emptied: the others end by themselves
		return int32(len(s.active))
	}
	return parallelism
}

// extra is which of the active pods go when n are too many: those that do an index twice, or
// one that is not there, in any case.
func (s *step) extra(n int32) []*corev1.Pod {
	var extra []*corev1.Pod
	rest := s.active
	if s.indexed() {
		extra, rest = s.doubles(rest)
	}
	if more := int(n) - len(extra); more > 0 {
		extra = append(extra, workload.ToDelete(rest, rest, more, s.now)...)
	}
	return extra
}

// create plans n pods.
func (s *step) create(n int) {
	if !s.indexed() {
		for range n {
			s.Create = append(s.Create, s.pod(-1))
		}
		return
	}
	for _, index := range s.due(s.pending(n)) {
		s.Create = append(s.Create, s.pod(index))
	}
}

// suspend says in the condition Suspended that the Job is, or goes on: then its time begins
// again.
func (s *step) suspend() {
	known := find(s.Status.Conditions, batchv1.JobSuspended)
	switch {
	case s.suspended() && known == nil:
		s.drop(batchv1.JobSuspended)
		s.set(s.condition(batchv1.JobSuspended, "JobSuspended", "Job suspended"))
		s.Tell = append(s.Tell, Event{corev1.EventTypeNormal, "Suspended", "Job suspended"})
	case !s.suspended() && known != nil:
		s.drop(batchv1.JobSuspended)
		resumed := s.condition(batchv1.JobSuspended, "JobResumed", "Job resumed")
		resumed.Status = corev1.ConditionFalse
		s.set(resumed)
		s.Tell = append(s.Tell, Event{corev1.EventTypeNormal, "Resumed", "Job resumed"})
		s.Status.StartTime = new(workload.Stamp(s.now))
	}
}

func (s *step) suspended() bool { return s.Job.Spec.Suspend != nil && *s.Job.Spec.Suspend }

func (s *step) indexed() bool {
	return s.Job.Spec.CompletionMode != nil && *s.Job.Spec.CompletionMode == batchv1.IndexedCompletion
}

// replacesFailedOnly reports whether a pod is replaced only after it has ended.
func (s *step) replacesFailedOnly() bool { return ReplacesFailedOnly(s.Job) }

// ReplacesFailedOnly is podReplacementPolicy Failed, which a podFailurePolicy implies.
func ReplacesFailedOnly(job *batchv1.Job) bool {
	if job.Spec.PodReplacementPolicy != nil {
		return *job.Spec.PodReplacementPolicy == batchv1.Failed
	}
	return job.Spec.PodFailurePolicy != nil
}

func (s *step) condition(kind batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	stamp := workload.Stamp(s.now)
	return batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, LastProbeTime: stamp, LastTransitionTime: stamp, Reason: reason, Message: message,
	}
}

func (s *step) set(condition batchv1.JobCondition) {
	s.Status.Conditions = append(slices.Clone(s.Status.Conditions), condition)
}

func (s *step) drop(kind batchv1.JobConditionType) {
	s.Status.Conditions = slices.DeleteFunc(slices.Clone(s.Status.Conditions), func(c batchv1.JobCondition) bool { return c.Type == kind })
}

func valueOr[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// shorter is the shorter of two waits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
