package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// keptByJob reports whether the pod's Job has a reason to leave its finalizer on the pod. A Job
// that replaces only failed pods waits until the pod has ended, also after a forced deletion
// (isPodFailed). A Job with a backoffLimitPerIndex counts the failures of an index on the index's
// pods. Until it has created the next pod, the last failed one stays
// (getPodsWithDelayedDeletionPerIndex).
func (p Pod) keptByJob() bool {
	if p.Job == nil || p.Pod.Status.Phase == corev1.PodSucceeded || !slices.Contains(p.Pod.Finalizers, jobTracking) {
		return false
	}
	if runs, known := p.controllerRuns(jobController); known && !runs {
		return false
	}
	if p.Job.DeletionTimestamp != nil || jobEnds(p.Job) {
		return false
	}
	return p.jobAwaitsEnd() || p.Job.Spec.BackoffLimitPerIndex != nil && p.indexIsOpen()
}

// jobAwaitsEnd reports whether the Job counts the pod only after its end, and the pod has not
// ended.
func (p Pod) jobAwaitsEnd() bool {
	policy := p.Job.Spec.PodReplacementPolicy
	return policy != nil && *policy == batchv1.Failed && (p.Pod.Status.Phase == corev1.PodRunning || p.Pod.Status.Phase == corev1.PodUnknown)
}

// indexIsOpen reports whether the pod's index has neither succeeded nor failed for good. Only such
// an index gets another pod.
func (p Pod) indexIsOpen() bool {
	index, err := strconv.ParseUint(p.Pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 31)
	completions := int32(1)
	if spec := p.Job.Spec.Completions; spec != nil {
		completions = *spec
	}
	if err != nil || int64(index) >= int64(completions) {
		return false
	}
	failed := p.Job.Status.FailedIndexes
	return !indexListed(p.Job.Status.CompletedIndexes, index) && (failed == nil || !indexListed(*failed, index))
}

// indexListed reports whether a list like "0,2-4" has an index. Unreadable parts of the list count
// as empty.
func indexListed(text string, index uint64) bool {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, errFirst := strconv.ParseUint(from, 10, 31)
		last, errLast := strconv.ParseUint(to, 10, 31)
		if errFirst == nil && errLast == nil && first <= index && index <= last {
			return true
		}
	}
	return false
}

// managedByOther reports whether another controller, named by the Job, counts the pod.
func (p Pod) managedByOther() bool {
	if p.Job == nil || !slices.Contains(p.Pod.Finalizers, jobTracking) {
		return false
	}
	by := p.Job.Spec.ManagedBy
	return by != nil && *by != batchv1.JobControllerName
}

// addOtherManager reports the finalizer of a Job that another controller manages: it is a foreign
// finalizer.
func (p Pod) addOtherManager(f *findings) {
	if p.Now.Sub(p.Pod.DeletionTimestamp.Time) >= stepPatience {
		p.addForeignFinalizer(f, p.Pod, "finalizer "+jobTracking+"; job "+p.Job.Name+" is managed by "+*p.Job.Spec.ManagedBy)
	}
}

// noteUnreadJob adds that the Job could not be read. It is unknown then why the Job keeps its pods.
func (p Pod) noteUnreadJob(f *findings) {
	for i := range f.all {
		if p.JobErr != "" && f.all[i].Name == "job-controller-down" {
			f.all[i].Evidence = append(f.all[i].Evidence, "its job, which may keep it, could not be read: "+p.JobErr)
		}
	}
}

// addJobKeepsPod reports the Job that keeps the pod. A suspended Job creates no pods, and any other
// pauses after a failure. Whether the next pod exists already is unknown here, so the controller
// may also have failed to release the pod.
func (p Pod) addJobKeepsPod(f *findings) {
	deleted := p.Pod.DeletionTimestamp.Time
	if p.Now.Sub(deleted) < stepPatience {
		return
	}
	found := f.add(cause("job-keeps-pod"), deleted, "finalizer "+jobTracking)
	if p.jobAwaitsEnd() {
		found.Evidence = append(found.Evidence, fmt.Sprintf("job %s replaces only failed pods, and this one has not ended: it is %s", p.Job.Name, p.Pod.Status.Phase))
		return
	}
	doing := "pauses before it makes the"
	if p.Job.Spec.Suspend != nil && *p.Job.Spec.Suspend {
		doing = "is suspended, and does not make the"
	}
	found.Evidence = append(found.Evidence, fmt.Sprintf("job %s, with a backoffLimitPerIndex of %d, %s next pod of index %s",
		p.Job.Name, *p.Job.Spec.BackoffLimitPerIndex, doing, p.Pod.Annotations[batchv1.JobCompletionIndexAnnotation]))
	found.Maybe = []string{"STK-04"}
}

// jobEnds reports whether a Job is over or about to be. It releases all its pods then.
func jobEnds(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type != batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
}

// without returns a list without one of its words.
func without(all []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == word })
}
