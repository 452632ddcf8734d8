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
func (s *step) perIndex() bool { return s.indexed() && s.Job.Spec.BackoffLimitPerIndex != nil }

// isInRange reports whether a pod's index is one that the Job asks for. In a Job without indexes
// every pod is.
func (s *step) inRange(pod *corev1.Pod) bool {
	index := Index(pod)
	return !s.indexed() || (index >= 0 && index < s.completions())
}

// countIndexes finds the indexes that have failed for good, and the failed pods that are held back
// for their successors (calculateFailedIndexes, getPodsWithDelayedDeletionPerIndex). An index ends
// once. If two pods ended at it, for example because one was adopted, the first that is counted
// decides. If both are counted at once, the successful one decides. Upstream puts such an index
// into both lists. Its API refuses that, and the Job ends before the other indexes were tried.
func (s *step) tallyIndexes() {
	if !s.perIndex() {
		return
	}
	for _, pod := range s.Pods {
		if Tracked(pod) && s.inRange(pod) && !s.done[Index(pod)] && s.losesIndex(pod) {
			s.lost[Index(pod)] = true
		}
	}
	s.held = map[int]*corev1.Pod{}
	busy := indexes{}
	for _, pod := range s.active {
		busy[Index(pod)] = true
	}
	for _, pod := range s.Pods {
		index := Index(pod)
		if !Tracked(pod) || !s.inRange(pod) || !s.hasFailed(pod) || s.done[index] || s.lost[index] || busy[index] {
			continue
		}
		if known := s.held[index]; known == nil || AllFailures(known) <= AllFailures(pod) {
			s.held[index] = pod
		}
	}
}

// failsIndex reports whether the index of a failed pod is not tried again (isIndexFailed).
func (s *step) losesIndex(pod *corev1.Pod) bool {
	if !s.hasFailed(pod) {
		return false
	}
	switch action, _ := s.policy(pod); action {
	case batchv1.PodFailurePolicyActionFailIndex:
		return true
	case batchv1.PodFailurePolicyActionIgnore:
		return false
	case batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionCount:
	}
	return failuresIn(pod, batchv1.JobIndexFailureCountAnnotation) >= *s.Job.Spec.BackoffLimitPerIndex
}

// failedIndexesCondition returns the condition of a Job that fails because of its failed indexes;
// nil if it does not.
func (s *step) tooManyLost() *batchv1.JobCondition {
	switch limit := s.Job.Spec.MaxFailedIndexes; {
	case !s.perIndex():
	case limit != nil && len(s.lost) > int(*limit):
		return s.fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case len(s.lost) > 0 && len(s.lost)+len(s.done) >= s.completions():
		return s.fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	return nil
}

// dueIndexes returns the indexes whose pause after their last failure is over. If there is none,
// the Job is synced again when the first is due (getPodCreationInfoForIndependentIndexes).
func (s *step) due(wanted []int) []int {
	var now []int
	var next time.Duration
	for _, index := range wanted {
		last := s.held[index]
		if last == nil || endOf(last, s.now).After(s.now) { // nobody knows when, by a clock that was ahead
			now = append(now, index)
			continue
		}
		wait := Failures{Count: int(AllFailures(last)) + 1, Last: endOf(last, s.now)}.left(s.now)
		if wait == 0 {
			now = append(now, index)
		} else {
			next = shorter(next, wait)
		}
	}
	if len(now) == 0 && next > 0 {
		s.Again = shorter(s.Again, next)
	}
	return now
}

// copyFailures copies the failure counts of an index to its new pod
// (addIndexFailureCountAnnotation).
func (s *step) follow(pod *corev1.Pod, index int) {
	var counted, ignored int32
	if last := s.held[index]; last != nil {
		counted = failuresIn(last, batchv1.JobIndexFailureCountAnnotation)
		ignored = failuresIn(last, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if s.counts(last) {
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
func (s *step) holdsBack(pod *corev1.Pod) bool {
	held := s.held[Index(pod)]
	return held != nil && held.UID == pod.UID && !s.Ending
}

// IndexFailures returns how often pods of an index failed before this one, ignored failures
// included.
func AllFailures(pod *corev1.Pod) int32 {
	return failuresIn(pod, batchv1.JobIndexFailureCountAnnotation) + failuresIn(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

// failureCount reads a count of failures; an unreadable one is 0.
func failuresIn(pod *corev1.Pod, annotation string) int32 {
	count, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil {
		return 0
	}
	return max(int32(count), 0)
}

// successPolicyCondition returns the condition of a Job whose successPolicy is satisfied; nil if it
// is not, or if there is no policy (matchSuccessPolicy).
func (s *step) enough() *batchv1.JobCondition {
	if s.Job.Spec.SuccessPolicy == nil || !s.indexed() || len(s.done) == 0 {
		return nil
	}
	i := slices.IndexFunc(s.Job.Spec.SuccessPolicy.Rules, func(rule batchv1.SuccessPolicyRule) bool { return rulePasses(rule, s.done, s.completions()) })
	if i < 0 {
		return nil
	}
	return new(s.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, "Matched rules at index "+strconv.Itoa(i)))
}

// matchesRule reports whether the done indexes satisfy a rule: all that it names, or as many of
// them as it says.
func rulePasses(rule batchv1.SuccessPolicyRule, done indexes, completions int) bool {
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
