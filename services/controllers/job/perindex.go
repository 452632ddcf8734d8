package job

import (
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// A Job with a backoffLimitPerIndex counts failures for each index by itself, and the count has
// no place in a status: it is an annotation of the index's next pod. The last pod that failed is
// therefore let go of only after the next one is there, which reads its count.

// isPerIndex reports whether each index has a backoff limit of its own.
func (s *planning) isPerIndex() bool { return s.isIndexed() && s.Job.Spec.BackoffLimitPerIndex != nil }

// isInRange reports whether a pod's index is one that the Job asks for. In a Job without indexes
// every pod is.
func (s *planning) isInRange(pod *corev1.Pod) bool {
	index := Index(pod)
	return !s.isIndexed() || (index >= 0 && index < s.completions())
}

// countIndexes finds the indexes that have failed for good, and the failed pods that are held back
// for their successors (calculateFailedIndexes, getPodsWithDelayedDeletionPerIndex). An index ends
// once. If two pods ended at it, for example because one was adopted, the first that is counted
// decides. If both are counted at once, the successful one decides. Upstream puts such an index
// into both lists. Its API refuses that, and the Job ends before the other indexes were tried.
func (s *planning) countIndexes() {
	if !s.isPerIndex() {
		return
	}
	for _, pod := range s.Pods {
		if IsTracked(pod) && s.isInRange(pod) && !s.doneIndexes[Index(pod)] && s.failsIndex(pod) {
			s.failedIndexes[Index(pod)] = true
		}
	}
	s.heldPods = map[int]*corev1.Pod{}
	busy := indexes{}
	for _, pod := range s.active {
		busy[Index(pod)] = true
	}
	for _, pod := range s.Pods {
		index := Index(pod)
		if !IsTracked(pod) || !s.isInRange(pod) || !s.hasFailed(pod) || s.doneIndexes[index] || s.failedIndexes[index] || busy[index] {
			continue
		}
		if known := s.heldPods[index]; known == nil || IndexFailures(known) <= IndexFailures(pod) {
			s.heldPods[index] = pod
		}
	}
}

// failsIndex reports whether the index of a failed pod is not tried again (isIndexFailed).
func (s *planning) failsIndex(pod *corev1.Pod) bool {
	if !s.hasFailed(pod) {
		return false
	}
	switch action, _ := s.failureAction(pod); action {
	case batchv1.PodFailurePolicyActionFailIndex:
		return true
	case batchv1.PodFailurePolicyActionIgnore:
		return false
	case batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionCount:
	}
	return failureCount(pod, batchv1.JobIndexFailureCountAnnotation) >= *s.Job.Spec.BackoffLimitPerIndex
}

// failedIndexesCondition returns the condition of a Job that fails because of its failed indexes;
// nil if it does not.
func (s *planning) failedIndexesCondition() *batchv1.JobCondition {
	switch limit := s.Job.Spec.MaxFailedIndexes; {
	case !s.isPerIndex():
	case limit != nil && len(s.failedIndexes) > int(*limit):
		return s.failure(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case len(s.failedIndexes) > 0 && len(s.failedIndexes)+len(s.doneIndexes) >= s.completions():
		return s.failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

// dueIndexes returns the indexes whose pause after their last failure is over. If there is none,
// the Job is synced again when the first is due (getPodCreationInfoForIndependentIndexes).
func (s *planning) dueIndexes(wanted []int) []int {
	var now []int
	var next time.Duration
	for _, index := range wanted {
		last := s.heldPods[index]
		if last == nil || endTime(last, s.now).After(s.now) { // nobody knows when, by a clock that was ahead
			now = append(now, index)
			continue
		}
		wait := Failures{Count: int(IndexFailures(last)) + 1, Last: endTime(last, s.now)}.remainingPause(s.now)
		if wait == 0 {
			now = append(now, index)
		} else {
			next = shorter(next, wait)
		}
	}
	if len(now) == 0 && next > 0 {
		s.RequeueAfter = shorter(s.RequeueAfter, next)
	}
	return now
}

// copyFailures copies the failure counts of an index to its new pod
// (addIndexFailureCountAnnotation).
func (s *planning) copyFailures(pod *corev1.Pod, index int) {
	var counted, ignored int32
	if last := s.heldPods[index]; last != nil {
		counted = failureCount(last, batchv1.JobIndexFailureCountAnnotation)
		ignored = failureCount(last, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if s.countsAsFailure(last) {
			counted++
		} else {
			ignored++
		}
	}
	notes := map[string]string{batchv1.JobIndexFailureCountAnnotation: strconv.Itoa(int(counted))}
	if ignored > 0 {
		notes[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(ignored))
	}
	maps.Copy(pod.Annotations, notes)
}

// isHeldBack reports whether a pod keeps its finalizer until its successor exists, also while the
// Job is suspended. In a namespace that is being deleted the pod would wait for ever, and the
// namespace for the pod.
func (s *planning) isHeldBack(pod *corev1.Pod) bool {
	held := s.heldPods[Index(pod)]
	return held != nil && held.UID == pod.UID && !s.NamespaceTerminating
}

// IndexFailures returns how often pods of an index failed before this one, ignored failures
// included.
func IndexFailures(pod *corev1.Pod) int32 {
	return failureCount(pod, batchv1.JobIndexFailureCountAnnotation) + failureCount(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// failureCount reads a count of failures; an unreadable one is 0.
func failureCount(pod *corev1.Pod, annotation string) int32 {
	count, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil {
		return 0
	}
	return max(int32(count), 0)
}

// successPolicyCondition returns the condition of a Job whose successPolicy is satisfied; nil if it
// is not, or if there is no policy (matchSuccessPolicy).
func (s *planning) successPolicyCondition() *batchv1.JobCondition {
	if s.Job.Spec.SuccessPolicy == nil || !s.isIndexed() || len(s.doneIndexes) == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Job.Spec.SuccessPolicy.Rules, func(rule batchv1.SuccessPolicyRule) bool { return matchesRule(rule, s.doneIndexes, s.completions()) })
	if i < 0 {
		return nil
	}
	return new(s.newCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, "Matched rules at index "+strconv.Itoa(i)))
}

// matchesRule reports whether the done indexes satisfy a rule: all that it names, or as many of
// them as it says.
func matchesRule(rule batchv1.SuccessPolicyRule, done indexes, completions int) bool {
	if rule.SucceededIndexes == nil {
		return rule.SucceededCount != nil && len(done) >= int(*rule.SucceededCount)
	}
	named := parseIndexes(*rule.SucceededIndexes, completions)
	both := 0
	for index := range named {
		if done[index] {
			both++
		}
	}
	return len(named) > 0 && (both == len(named) || (rule.SucceededCount != nil && both >= int(*rule.SucceededCount)))
}
