package job

import (
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Finalizer is on each pod of a Job until the pod is counted.
const Finalizer = batchv1.JobTrackingFinalizer

// maxUncounted is the largest number of pods that wait to be counted.
const maxUncounted = 500

// IsTracked reports whether a pod has the finalizer.
func IsTracked(pod *corev1.Pod) bool { return slices.Contains(pod.Finalizers, Finalizer) }

// countPods counts pods, and the new failures among them.
func (s *planning) countPods() {
	s.doneIndexes = parseIndexes(s.Status.CompletedIndexes, s.completions())
	if s.isPerIndex() {
		s.failedIndexes = parseIndexes(valueOr(s.Status.FailedIndexes, ""), s.completions())
		maps.DeleteFunc(s.failedIndexes, func(index int, _ bool) bool { return s.doneIndexes[index] })
	}
	waiting := uncountedOf(&s.Status)
	s.succeeded = s.Status.Succeeded + int32(len(waiting.Succeeded))
	s.failed = s.Status.Failed + int32(len(waiting.Failed))
	var ended []*corev1.Pod
	for _, pod := range s.Pods {
		if workload.IsActive(pod) {
			s.active = append(s.active, pod)
		}
		if workload.IsTerminating(pod) {
			s.terminating++
		}
		if !s.isUncounted(pod) {
			continue
		}
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			ended = append(ended, pod)
			if !s.isIndexed() {
				s.succeeded++
			} else if s.isInRange(pod) && !s.failedIndexes[Index(pod)] {
				s.doneIndexes[Index(pod)] = true
			}
		case s.hasFailed(pod):
			ended = append(ended, pod)
			if s.isInRange(pod) && s.countsAsFailure(pod) {
				s.failed++
			}
		}
	}
	if s.isIndexed() {
		s.succeeded = int32(len(s.doneIndexes))
	}
	s.Plan.Failures = s.Plan.Failures.after(ended, s.now)
}

// isUncounted reports whether a pod is in no number yet.
func (s *planning) isUncounted(pod *corev1.Pod) bool {
	waiting := uncountedOf(&s.Status)
	return IsTracked(pod) && !s.Freed[pod.UID] && !slices.Contains(waiting.Succeeded, pod.UID) && !slices.Contains(waiting.Failed, pod.UID)
}

// hasFailed is HasFailed for the step's Job.
func (s *planning) hasFailed(pod *corev1.Pod) bool { return HasFailed(s.Job, pod) }

// HasFailed reports whether a pod counts as a failed one of its Job: it has failed, or it is being
// deleted. If only failed pods are replaced, a deleted pod counts only if it never ran
// (isPodFailed).
func HasFailed(job *batchv1.Job, pod *corev1.Pod) bool {
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		return true
	case pod.DeletionTimestamp == nil || pod.Status.Phase == corev1.PodSucceeded:
		return false
	}
	return !ReplacesFailedOnly(job) || pod.Status.Phase == corev1.PodPending
}

// planCounting adds ended pods to those that wait to be counted, and plans to free all of these
// (trackJobStatusAndRemoveFinalizers).
func (s *planning) planCounting() {
	waiting := uncountedOf(&s.Status)
	tracked := map[types.UID]bool{}
	for _, pod := range s.Pods {
		if IsTracked(pod) && !s.Freed[pod.UID] {
			tracked[pod.UID] = true
		}
	}
	s.Status.Succeeded += int32(removeUntracked(&waiting.Succeeded, tracked))
	s.Status.Failed += int32(removeUntracked(&waiting.Failed, tracked))
	before := parseIndexes(s.Status.CompletedIndexes, s.completions())
	for _, pod := range s.Pods {
		if !tracked[pod.UID] || len(waiting.Succeeded)+len(waiting.Failed) >= maxUncounted {
			continue
		}
		over := s.Target != nil || s.Job.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded
		if !over && (!s.hasFailed(pod) || s.isHeldBack(pod)) {
			continue
		}
		s.Free = append(s.Free, pod)
		s.addUncounted(pod, waiting, before)
	}
	if s.isIndexed() {
		s.Status.CompletedIndexes = before.String()
		s.Status.Succeeded = int32(len(before))
	}
	if s.isPerIndex() {
		s.Status.FailedIndexes = new(s.failedIndexes.String())
	}
	s.Status.UncountedTerminatedPods = waiting
}

// addUncounted adds a pod to those that wait to be counted. For a pod that succeeded at an index,
// the index is enough. If the Job is over, a pod that has not ended counts as failed.
func (s *planning) addUncounted(pod *corev1.Pod, waiting *batchv1.UncountedTerminatedPods, done indexes) {
	if slices.Contains(waiting.Succeeded, pod.UID) || slices.Contains(waiting.Failed, pod.UID) {
		return
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded && s.isIndexed():
		if s.doneIndexes[Index(pod)] {
			done[Index(pod)] = true
		}
	case pod.Status.Phase == corev1.PodSucceeded:
		waiting.Succeeded = append(waiting.Succeeded, pod.UID)
	case !s.isInRange(pod):
	case s.hasFailed(pod) || (s.Target != nil && s.Target.Type == batchv1.JobFailureTarget):
		if s.countsAsFailure(pod) {
			waiting.Failed = append(waiting.Failed, pod.UID)
		}
	}
}

// setCounts sets how many pods run.
func (s *planning) setCounts() {
	active, ready := len(s.active)-len(s.Delete)+len(s.Create), 0
	for _, pod := range s.active {
		if workload.IsReady(pod) && !slices.Contains(s.Delete, pod) {
			ready++
		}
	}
	s.Status.Active, s.Status.Ready = int32(active), new(int32(ready))
	s.Status.Terminating = new(s.terminating + int32(len(s.Delete)))
	if s.Target != nil {
		s.setTargetCondition()
	}
}

// StatusAfterFreeing returns the status at now after pods of a plan were freed: they are counted,
// and the Job is over if it is to end and none of its pods runs any more (enactJobFinished).
func StatusAfterFreeing(plan Plan, freed []*corev1.Pod, now time.Time) (status batchv1.JobStatus, event Event) {
	status = *plan.Status.DeepCopy()
	waiting := uncountedOf(&status)
	tracked := map[types.UID]bool{}
	for _, uid := range slices.Concat(waiting.Succeeded, waiting.Failed) {
		tracked[uid] = true
	}
	for _, pod := range freed {
		delete(tracked, pod.UID)
	}
	status.Succeeded += int32(removeUntracked(&waiting.Succeeded, tracked))
	status.Failed += int32(removeUntracked(&waiting.Failed, tracked))
	status.UncountedTerminatedPods = waiting
	if plan.Target == nil || len(waiting.Succeeded)+len(waiting.Failed) > 0 || len(freed) < len(plan.Free) ||
		status.Active > 0 || (status.Terminating != nil && *status.Terminating > 0) {
		return status, Event{}
	}
	last := *plan.Target
	last.LastProbeTime, last.LastTransitionTime = workload.Stamp(now), workload.Stamp(now)
	event = Event{corev1.EventTypeWarning, last.Reason, last.Message}
	if status.StartTime == nil && !plan.Idle { // it was suspended all the time; the API takes no end without a beginning
		status.StartTime = new(last.LastTransitionTime)
	}
	if last.Type == batchv1.JobSuccessCriteriaMet {
		last.Type = batchv1.JobComplete
		status.CompletionTime = &last.LastTransitionTime
		if status.CompletionTime.Before(status.StartTime) {
			status.CompletionTime = status.StartTime // by a clock that was ahead; the API takes no end before a beginning
		}
		event = Event{corev1.EventTypeNormal, "Completed", "Job completed"}
	} else {
		last.Type = batchv1.JobFailed
	}
	status.Conditions = append(status.Conditions, last)
	return status, event
}

// uncountedOf returns a copy of the pods that wait to be counted.
func uncountedOf(status *batchv1.JobStatus) *batchv1.UncountedTerminatedPods {
	if status.UncountedTerminatedPods == nil {
		return &batchv1.UncountedTerminatedPods{}
	}
	return status.UncountedTerminatedPods.DeepCopy()
}

// removeUntracked removes the uids that are no longer tracked, and returns how many.
func removeUntracked(uids *[]types.UID, tracked map[types.UID]bool) int {
	before := len(*uids)
	*uids = slices.DeleteFunc(*uids, func(uid types.UID) bool { return !tracked[uid] })
	if len(*uids) == 0 {
		*uids = nil
	}
	return before - len(*uids)
}
