package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/services/controllers/workload"
)

// endCondition returns the condition with which the Job ends now, successfully or not; nil if it
// does not end. A condition that was set once stays.
func (s *planning) endCondition() *batchv1.JobCondition {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		if condition := findCondition(s.Status.Conditions, kind); condition != nil {
			return condition
		}
	}
	for _, pod := range s.Pods {
		if !s.hasFailed(pod) {
			continue
		}
		if action, message := s.failureAction(pod); action == batchv1.PodFailurePolicyActionFailJob {
			return s.failure(batchv1.JobReasonPodFailurePolicy, message)
		}
	}
	if s.failed > valueOr(s.Job.Spec.BackoffLimit, 6) || s.exceedsRestarts() {
		return s.failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if left := s.deadlineLeft(); left == 0 {
		return s.failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	} else if left > 0 {
		s.RequeueAfter = shorter(s.RequeueAfter, left)
	}
	if why := s.failedIndexesCondition(); why != nil {
		return why
	}
	return s.successPolicyCondition()
}

func (s *planning) failure(reason, message string) *batchv1.JobCondition {
	return new(s.newCondition(batchv1.JobFailureTarget, reason, message))
}

// exceedsRestarts reports whether containers that are restarted in place have failed too often
// (pastBackoffLimitOnFailure).
func (s *planning) exceedsRestarts() bool {
	if s.Job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var total int32
	for _, pod := range s.Pods {
		if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending {
			for _, status := range pod.Status.InitContainerStatuses {
				total += status.RestartCount
			}
			for _, status := range pod.Status.ContainerStatuses {
				total += status.RestartCount
			}
		}
	}
	limit := valueOr(s.Job.Spec.BackoffLimit, 6)
	return total > 0 && total >= limit
}

// deadlineLeft returns how long the Job may still be active; -1 if there is no limit.
func (s *planning) deadlineLeft() time.Duration {
	if s.Job.Spec.ActiveDeadlineSeconds == nil || s.Status.StartTime == nil || s.isSuspended() {
		return -1
	}
	return workload.Remaining(s.Status.StartTime.Time, time.Duration(*s.Job.Spec.ActiveDeadlineSeconds)*time.Second, s.now)
}

// completedCondition returns the condition of a Job that has enough successful pods; nil if it has
// not.
func (s *planning) completedCondition() *batchv1.JobCondition {
	if len(s.active) > 0 || len(s.Create) > 0 {
		return nil
	}
	if s.Job.Spec.Completions == nil && s.Job.Spec.Parallelism != nil {
		if s.succeeded == 0 {
			return nil
		}
	} else if s.succeeded < valueOr(s.Job.Spec.Completions, 1) {
		return nil
	}
	return new(s.newCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"))
}

// setTargetCondition sets the condition with which the Job will end, while its pods are still to be
// counted.
func (s *planning) setTargetCondition() {
	if findCondition(s.Status.Conditions, s.Target.Type) == nil {
		s.addCondition(*s.Target)
	}
}

// IsOrphaned reports whether a pod holds the finalizer and no Job will count it: its Job is gone or
// finished, or is being deleted and does not select the pod. In the last case, upstream's Job that
// is deleted in the foreground waits for ever for the pod, and the pod for the Job. The pods of a
// Job that another controller manages are never orphaned (syncOrphanPod).
func IsOrphaned(pod *corev1.Pod, job *batchv1.Job) bool {
	switch {
	case !IsTracked(pod):
		return false
	case job == nil:
		return true
	case isManagedElsewhere(job):
		return false
	}
	return IsFinished(job) && workload.IsFinished(pod) || job.DeletionTimestamp != nil && !selects(job, pod)
}

// isManagedElsewhere reports whether another controller manages a Job (KEP-4368).
func isManagedElsewhere(job *batchv1.Job) bool {
	return job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

func selects(job *batchv1.Job, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// NeedsFreeing reports whether a pod holds the finalizer and no Job will count it. job is the one
// with the name of the pod's owner; nil if there is none.
func NeedsFreeing(pod *corev1.Pod, job *batchv1.Job) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if !IsTracked(pod) || owner == nil || owner.Kind != "Job" {
		return IsTracked(pod)
	}
	return job == nil || job.UID != owner.UID || IsOrphaned(pod, job)
}

// FinalizerPatch returns the strategic merge patch that removes the finalizer of a counted pod,
// whatever its version: its Job may have just deleted it.
func FinalizerPatch(pod *corev1.Pod) map[string]any {
	return map[string]any{"metadata": map[string]any{"uid": pod.UID, "$deleteFromPrimitiveList/finalizers": []string{Finalizer}}}
}

// OrphanFinalizerPatch is FinalizerPatch for a pod that no Job will count. It holds for this
// version of the pod only, because a Job may adopt the pod later and count it.
func OrphanFinalizerPatch(pod *corev1.Pod) map[string]any {
	return map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "$deleteFromPrimitiveList/finalizers": []string{Finalizer},
	}}
}

// FinalizerState is what a changed pod's finalizer means.
type FinalizerState int

// What it means.
const (
	// NothingToDo means that there is no finalizer, that its Job counts the pod, or that its owner
	// is of a kind without counting.
	NothingToDo FinalizerState = iota
	// Orphan means that no Job will count the pod. MaybeOrphan means that perhaps none will: the
	// Job may not be in the view yet.
	Orphan
	MaybeOrphan
)

// FinalizerStateOf reads a pod's finalizer. A nil pod is a deleted one. under is the Job with the
// name of the pod's owner; nil if there is none.
func FinalizerStateOf(pod *corev1.Pod, under *batchv1.Job) FinalizerState {
	if pod == nil || !IsTracked(pod) {
		return NothingToDo
	}
	switch owner := metav1.GetControllerOfNoCopy(pod); {
	case owner == nil:
		return Orphan
	case owner.Kind != "Job":
		return NothingToDo
	case under == nil || under.UID != owner.UID:
		return MaybeOrphan
	case IsOrphaned(pod, under):
		return Orphan
	}
	return NothingToDo
}

// BecomesTerminating reports whether a change of a namespace is the start of its deletion. old is
// nil for a new namespace, now is nil for a deleted one.
func BecomesTerminating(old, now *corev1.Namespace) bool {
	return now != nil && now.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil)
}
