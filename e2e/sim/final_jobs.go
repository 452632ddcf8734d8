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

// checkJobs checks that every Job that is not suspended is finished for a valid reason, with all
// pods counted and none running, and is gone after its TTL. No pod may keep the tracking finalizer
// unless it waits for its successor.
func checkJobs(snapshot *store.Snapshot, now time.Time) (wrong []error) {
	pods := objectsOf[*corev1.Pod](snapshot, "pods")
	for _, its := range objectsOf[*batchv1.Job](snapshot, "jobs.batch") {
		running := 0
		for _, pod := range pods {
			if metav1.IsControlledBy(pod, its) && workload.IsActive(pod) {
				running++
			}
		}
		if what := jobProblem(its, running, now); what != "" {
			wrong = append(wrong, fmt.Errorf("%w: job %s %s; %d of its pods run, and of its status it is %s", ErrJobs, its.Name, what, running, formatStatus(its.Status)))
		}
	}
	held := podsAwaitingSuccessor(snapshot)
	for _, pod := range pods {
		if job.IsTracked(pod) && !held[pod.UID] {
			wrong = append(wrong, fmt.Errorf("%w: nobody has counted %s", ErrStuck, pod.Name))
		}
	}
	return wrong
}

// podsAwaitingSuccessor returns the pods that wait for their successors until their Jobs are
// resumed.
func podsAwaitingSuccessor(snapshot *store.Snapshot) map[types.UID]bool {
	held, pods := map[types.UID]bool{}, objectsOf[*corev1.Pod](snapshot, "pods")
	for _, its := range objectsOf[*batchv1.Job](snapshot, "jobs.batch") {
		for _, pod := range podsKeptBy(its, pods) {
			held[pod.UID] = true
		}
	}
	return held
}

// podsKeptBy returns the pods, by index, that a suspended Job keeps, as upstream's does. A failed
// pod at an unfinished index holds the failure count for the next pod of that index. Of two such
// pods the one with more failures is kept.
func podsKeptBy(its *batchv1.Job, pods []*corev1.Pod) map[int]*corev1.Pod {
	if !*its.Spec.Suspend || its.Spec.BackoffLimitPerIndex == nil || its.DeletionTimestamp != nil || job.IsFinished(its) {
		return nil
	}
	held := map[int]*corev1.Pod{}
	for _, pod := range pods {
		index := job.Index(pod)
		if !job.IsTracked(pod) || !metav1.IsControlledBy(pod, its) || pod.Status.Phase != corev1.PodFailed || !isUnfinished(its, index) {
			continue
		}
		if known := held[index]; known == nil || job.IndexFailures(known) <= job.IndexFailures(pod) {
			held[index] = pod
		}
	}
	return held
}

// isUnfinished reports whether a Job has the index and the index is not finished.
func isUnfinished(its *batchv1.Job, index int) bool {
	failed := its.Status.FailedIndexes
	return index >= 0 && index < int(*its.Spec.Completions) &&
		!hasIndex(its.Status.CompletedIndexes, index) && (failed == nil || !hasIndex(*failed, index))
}

// jobProblem describes what is wrong with a Job of which so many pods run; empty for nothing.
func jobProblem(its *batchv1.Job, running int, now time.Time) string {
	status := &its.Status
	waiting := status.UncountedTerminatedPods
	switch remove, _ := ttl.Decide(its, now.Add(-noChangesFor)); {
	case remove:
		return "should have gone"
	case !job.IsFinished(its) && !*its.Spec.Suspend:
		return "is not over"
	case running > 0, status.Active != 0, status.Terminating != nil && *status.Terminating != 0:
		return "has pods that run"
	case waiting != nil && len(waiting.Succeeded)+len(waiting.Failed) > 0:
		return "has pods that are not counted"
	case hasOverlappingIndexes(its):
		return "has an index that has succeeded and failed, or that nobody can read"
	}
	for _, condition := range status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return successProblem(its)
		case condition.Type == batchv1.JobFailed:
			return failureProblem(its, condition)
		}
	}
	return ""
}

// hasOverlappingIndexes reports whether an index is both succeeded and failed, which upstream's API
// refuses (RejectFailedIndexesOverlappingCompleted).
func hasOverlappingIndexes(its *batchv1.Job) bool {
	if its.Status.FailedIndexes == nil {
		return false
	}
	done, errDone := parseIndexes(its.Status.CompletedIndexes)
	lost, errLost := parseIndexes(*its.Status.FailedIndexes)
	return errDone != nil || errLost != nil || slices.ContainsFunc(done, func(d indexRange) bool {
		return slices.ContainsFunc(lost, func(l indexRange) bool { return d.first <= l.last && l.first <= d.last })
	})
}

// successProblem describes why a complete Job should not be complete. It may have more completions
// than it asked for: a deleted pod may still succeed.
func successProblem(its *batchv1.Job) string {
	wants := *its.Spec.Completions
	if its.Spec.SuccessPolicy != nil {
		wants = *its.Spec.SuccessPolicy.Rules[0].SucceededCount
	}
	switch {
	case its.Status.Succeeded < wants:
		return "is complete too early"
	case *its.Spec.CompletionMode == batchv1.IndexedCompletion && countIndexes(its.Status.CompletedIndexes) != int(its.Status.Succeeded):
		return "has not completed as many indexes as it says"
	case *its.Spec.CompletionMode == batchv1.IndexedCompletion && its.Status.Succeeded > *its.Spec.Completions:
		return "has completed an index twice"
	}
	return ""
}

// failureDecidedAt returns when it was decided that a Job has failed. The Job says so only once its
// pods are gone, which may be by another clock.
func failureDecidedAt(its *batchv1.Job, failed batchv1.JobCondition) time.Time {
	return cmp.Or(trueSince(its, batchv1.JobFailureTarget), failed.LastTransitionTime.Time)
}

// trueSince returns since when the first true condition of one of these types has been true; zero
// if none is.
func trueSince(its *batchv1.Job, types ...batchv1.JobConditionType) time.Time {
	for _, condition := range its.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && slices.Contains(types, condition.Type) {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// failureProblem describes why a failed Job should not have failed for that reason.
func failureProblem(its *batchv1.Job, why batchv1.JobCondition) string {
	spec, status := &its.Spec, &its.Status
	lost := 0
	if status.FailedIndexes != nil {
		lost = countIndexes(*status.FailedIndexes)
	}
	restarted := spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure // in place, which nobody counts
	good := false
	switch why.Reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		good = status.Failed > *spec.BackoffLimit || restarted
	case batchv1.JobReasonDeadlineExceeded:
		good = spec.ActiveDeadlineSeconds != nil &&
			failureDecidedAt(its, why).Sub(status.StartTime.Time) >= time.Duration(*spec.ActiveDeadlineSeconds)*time.Second
	case batchv1.JobReasonPodFailurePolicy:
		good = spec.PodFailurePolicy != nil && spec.PodFailurePolicy.Rules[0].Action == batchv1.PodFailurePolicyActionFailJob
	case batchv1.JobReasonFailedIndexes:
		good = spec.BackoffLimitPerIndex != nil && lost > 0 && lost+countIndexes(status.CompletedIndexes) == int(*spec.Completions)
	case batchv1.JobReasonMaxFailedIndexesExceeded:
		good = spec.MaxFailedIndexes != nil && lost > int(*spec.MaxFailedIndexes)
	}
	if !good {
		return "has failed for no reason"
	}
	return ""
}

// countIndexes counts the indexes of a text like "1,3-5"; -1 if it cannot be parsed.
func countIndexes(text string) (count int) {
	spans, err := parseIndexes(text)
	if err != nil {
		return -1
	}
	for _, s := range spans {
		count += s.last - s.first + 1
	}
	return count
}

// hasIndex reports whether a text like "1,3-5" holds an index; true if it cannot be parsed.
func hasIndex(text string, index int) bool {
	spans, err := parseIndexes(text)
	return err != nil || slices.ContainsFunc(spans, func(s indexRange) bool { return s.first <= index && index <= s.last })
}

// indexRange is one part of a text of indexes.
type indexRange struct{ first, last int }

// parseIndexes parses a text like "1,3-5"; an empty text has no ranges.
func parseIndexes(text string) (spans []indexRange, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		var s indexRange
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
