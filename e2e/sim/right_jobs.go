package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/job"
	"github.com/podfall/podfall/services/controllers/ttl"
	"github.com/podfall/podfall/services/controllers/workload"
)

// rightJobs wants every Job to be over that is not held up, for a reason that there is, with
// all its pods counted and none that runs, and to be gone when its time is up; and no pod to be
// held by what says that it is to be counted, unless it waits for its successor.
func rightJobs(snapshot *store.Snapshot, now time.Time) (wrong []error) {
	pods := objectsOf[*corev1.Pod](snapshot, "pods")
	for _, its := range objectsOf[*batchv1.Job](snapshot, "jobs.batch") {
		running := 0
		for _, pod := range pods {
			if metav1.IsControlledBy(pod, its) && workload.IsActive(pod) {
				running++
			}
		}
		if what := wrongJob(its, running, now); what != "" {
			wrong = append(wrong, fmt.Errorf("%w: job %s %s; %d of its pods run, and of its status it is %s", ErrJobs, its.Name, what, running, asJSON(its.Status)))
		}
	}
	held := heldBack(snapshot)
	for _, pod := range pods {
		if job.IsTracked(pod) && !held[pod.UID] {
			wrong = append(wrong, fmt.Errorf("%w: nobody has counted %s", ErrStuck, pod.Name))
		}
	}
	return wrong
}

// heldBack are the pods that wait for their successors until their Jobs go on.
func heldBack(snapshot *store.Snapshot) map[types.UID]bool {
	held, pods := map[types.UID]bool{}, objectsOf[*corev1.Pod](snapshot, "pods")
	for _, its := range objectsOf[*batchv1.Job](snapshot, "jobs.batch") {
		for _, pod := range keptBy(its, pods) {
			held[pod.UID] = true
		}
	}
	return held
}

// keptBy are the pods, by index, that a Job keeps for as long as it is suspended, as upstream's: one
// that has failed at an index which is still to be done has the count for the next one there. Of two
// it is the one that has seen more failures.
func keptBy(its *batchv1.Job, pods []*corev1.Pod) map[int]*corev1.Pod {
	if !*its.Spec.Suspend || its.Spec.BackoffLimitPerIndex == nil || its.DeletionTimestamp != nil || job.IsFinished(its) {
		return nil
	}
	held := map[int]*corev1.Pod{}
	for _, pod := range pods {
		index := job.Index(pod)
		if !job.IsTracked(pod) || !metav1.IsControlledBy(pod, its) || pod.Status.Phase != corev1.PodFailed || !toDo(its, index) {
			continue
		}
		if known := held[index]; known == nil || job.IndexFailures(known) <= job.IndexFailures(pod) {
			held[index] = pod
		}
	}
	return held
}

// toDo reports whether an index is one of a Job's, and is still to be done.
func toDo(its *batchv1.Job, index int) bool {
	failed := its.Status.FailedIndexes
	return index >= 0 && index < int(*its.Spec.Completions) &&
		!hasIndex(its.Status.CompletedIndexes, index) && (failed == nil || !hasIndex(*failed, index))
}

// wrongJob is what is wrong with the end of a Job of which so many pods run; empty for nothing.
func wrongJob(its *batchv1.Job, running int, now time.Time) string {
	status := &its.Status
	waiting := status.UncountedTerminatedPods
	switch remove, _ := ttl.Decide(its, now.Add(-calmFor)); {
	case remove:
		return "should have gone"
	case !job.IsFinished(its) && !*its.Spec.Suspend:
		return "is not over"
	case running > 0, status.Active != 0, status.Terminating != nil && *status.Terminating != 0:
		return "has pods that run"
	case waiting != nil && len(waiting.Succeeded)+len(waiting.Failed) > 0:
		return "has pods that are not counted"
	case endsTwice(its):
		return "has an index that has succeeded and failed, or that nobody can read"
	}
	for _, condition := range status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return wrongSuccess(its)
		case condition.Type == batchv1.JobFailed:
			return wrongFailure(its, condition)
		}
	}
	return ""
}

// endsTwice reports whether an index of a Job is among those that have succeeded and those that have
// failed, which upstream's API refuses (RejectFailedIndexesOverlappingCompleted).
func endsTwice(its *batchv1.Job) bool {
	if its.Status.FailedIndexes == nil {
		return false
	}
	done, errDone := spansIn(its.Status.CompletedIndexes)
	lost, errLost := spansIn(*its.Status.FailedIndexes)
	return errDone != nil || errLost != nil || slices.ContainsFunc(done, func(d span) bool {
		return slices.ContainsFunc(lost, func(l span) bool { return d.first <= l.last && l.first <= d.last })
	})
}

// wrongSuccess is why a Job that is complete should not be. It may have more completions than it
// asked for: a pod that was taken from it may succeed all the same.
func wrongSuccess(its *batchv1.Job) string {
	wants := *its.Spec.Completions
	if its.Spec.SuccessPolicy != nil {
		wants = *its.Spec.SuccessPolicy.Rules[0].SucceededCount
	}
	switch {
	case its.Status.Succeeded < wants:
		return "is complete too early"
	case *its.Spec.CompletionMode == batchv1.IndexedCompletion && indexesIn(its.Status.CompletedIndexes) != int(its.Status.Succeeded):
		return "has not completed as many indexes as it says"
	case *its.Spec.CompletionMode == batchv1.IndexedCompletion && its.Status.Succeeded > *its.Spec.Completions:
		return "has completed an index twice"
	}
	return ""
}

// doomed is when it was decided that a Job has failed: it says so only when its pods are gone, which may
// be by another clock.
func doomed(its *batchv1.Job, failed batchv1.JobCondition) time.Time {
	return cmp.Or(trueSince(its, batchv1.JobFailureTarget), failed.LastTransitionTime.Time)
}

// trueSince is since when the first of a Job's conditions has been true that is of one of these types;
// zero when none is.
func trueSince(its *batchv1.Job, types ...batchv1.JobConditionType) time.Time {
	for _, condition := range its.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && slices.Contains(types, condition.Type) {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// wrongFailure is why a Job that has failed should not have, for that reason.
func wrongFailure(its *batchv1.Job, why batchv1.JobCondition) string {
	spec, status := &its.Spec, &its.Status
	lost := 0
	if status.FailedIndexes != nil {
		lost = indexesIn(*status.FailedIndexes)
	}
	restarted := spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure // in place, which nobody counts
	good := false
	switch why.Reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		good = status.Failed > *spec.BackoffLimit || restarted
	case batchv1.JobReasonDeadlineExceeded:
		good = spec.ActiveDeadlineSeconds != nil &&
			doomed(its, why).Sub(status.StartTime.Time) >= time.Duration(*spec.ActiveDeadlineSeconds)*time.Second
	case batchv1.JobReasonPodFailurePolicy:
		good = spec.PodFailurePolicy != nil && spec.PodFailurePolicy.Rules[0].Action == batchv1.PodFailurePolicyActionFailJob
	case batchv1.JobReasonFailedIndexes:
		good = spec.BackoffLimitPerIndex != nil && lost > 0 && lost+indexesIn(status.CompletedIndexes) == int(*spec.Completions)
	case batchv1.JobReasonMaxFailedIndexesExceeded:
		good = spec.MaxFailedIndexes != nil && lost > int(*spec.MaxFailedIndexes)
	}
	if !good {
		return "has failed for no reason"
	}
	return ""
}

// indexesIn is how many indexes a text like "1,3-5" has; -1 for one that cannot be read.
func indexesIn(text string) (count int) {
	spans, err := spansIn(text)
	if err != nil {
		return -1
	}
	for _, s := range spans {
		count += s.last - s.first + 1
	}
	return count
}

// hasIndex reports whether a text like "1,3-5" has an index; one that cannot be read may have any.
func hasIndex(text string, index int) bool {
	spans, err := spansIn(text)
	return err != nil || slices.ContainsFunc(spans, func(s span) bool { return s.first <= index && index <= s.last })
}

// span is a part of a text of indexes.
type span struct{ first, last int }

// spansIn reads a text like "1,3-5"; an empty one has none.
func spansIn(text string) (spans []span, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		var s span
		if s.first, err = strconv.Atoi(from); err != nil {
			return nil, err
		}
		if s.last = s.first; isRange {
			if s.last, err = strconv.Atoi(to); err != nil {
				return nil, err
			}
		}
		spans = append(spans, s)
	}
	return spans, nil
}
