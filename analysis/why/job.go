package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// kept reports whether the pod's Job has a reason to leave its finalizer on it. A Job that replaces
// only failed pods waits until the pod has ended, also when it is deleted by force (isPodFailed). One
// with a backoffLimitPerIndex counts the failures of an index on the index's pods; until it has made
// the next one, the one that failed last stays (getPodsWithDelayedDeletionPerIndex).
func (p Pod) kept() bool {
	if p.Job == nil || p.Pod.Status.Phase == corev1.PodSucceeded || !slices.Contains(p.Pod.Finalizers, jobTracking) {
		return false
	}
	if runs, known := p.runs(jobController); known && !runs {
		return false
	}
	if p.Job.DeletionTimestamp != nil || ends(p.Job) {
		return false
	}
	return p.goesOn() || p.Job.Spec.BackoffLimitPerIndex != nil && p.toDo()
}

// goesOn reports whether the Job counts the pod only when it has ended, which it has not yet.
func (p Pod) goesOn() bool {
	policy := p.Job.Spec.PodReplacementPolicy
	return policy != nil && *policy == batchv1.Failed && (p.Pod.Status.Phase == corev1.PodRunning || p.Pod.Status.Phase == corev1.PodUnknown)
}

// toDo reports whether the pod has an index of its Job which has neither succeeded nor failed for
// good: at no other is a next pod made.
func (p Pod) toDo() bool {
	index, err := strconv.ParseUint(p.Pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 31)
	completions := int32(1)
	if its := p.Job.Spec.Completions; its != nil {
		completions = *its
	}
	if err != nil || int64(index) >= int64(completions) {
		return false
	}
	failed := p.Job.Status.FailedIndexes
	return !listed(p.Job.Status.CompletedIndexes, index) && (failed == nil || !listed(*failed, index))
}

// listed reports whether a text like "0,2-4" has an index; what cannot be read of it has none.
func listed(text string, index uint64) bool {
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

// managed reports whether another controller counts the pod: the one that its Job names.
func (p Pod) managed() bool {
	if p.Job == nil || !slices.Contains(p.Pod.Finalizers, jobTracking) {
		return false
	}
	by := p.Job.Spec.ManagedBy
	return by != nil && *by != batchv1.JobControllerName
}

// manager is about that controller: to the cluster its finalizer is a stranger's.
func (p Pod) manager(f *findings) {
	if p.Now.Sub(p.Pod.DeletionTimestamp.Time) >= patience {
		p.stranger(f, p.Pod, "finalizer "+jobTracking+"; job "+p.Job.Name+" is managed by "+*p.Job.Spec.ManagedBy)
	}
}

// unread tells of a Job that could not be read: what it keeps its pods for is not known then.
func (p Pod) unread(f *findings) {
	for i := range f.all {
		if p.JobErr != "" && f.all[i].Name == "job-controller-down" {
			f.all[i].Evidence = append(f.all[i].Evidence, "its job, which may keep it, could not be read: "+p.JobErr)
		}
	}
}

// keeper is about the Job that keeps the pod: a suspended one makes no pods, and any other pauses
// after a failure. Whether the next pod is there already is not known here, so that the controller
// may have failed to let go.
func (p Pod) keeper(f *findings) {
	deleted := p.Pod.DeletionTimestamp.Time
	if p.Now.Sub(deleted) < patience {
		return
	}
	found := f.add(cause("job-keeps-pod"), deleted, "finalizer "+jobTracking)
	if p.goesOn() {
		found.Evidence = append(found.Evidence, fmt.Sprintf("job %s replaces only failed pods, and this one has not ended: it is %s", p.Job.Name, p.Pod.Status.Phase))
		return
	}
	does := "pauses before it makes the"
	if p.Job.Spec.Suspend != nil && *p.Job.Spec.Suspend {
		does = "is suspended, and does not make the"
	}
	found.Evidence = append(found.Evidence, fmt.Sprintf("job %s, with a backoffLimitPerIndex of %d, %s next pod of index %s",
		p.Job.Name, *p.Job.Spec.BackoffLimitPerIndex, does, p.Pod.Annotations[batchv1.JobCompletionIndexAnnotation]))
	found.Maybe = []string{"STK-04"}
}

// ends reports whether a Job is over or about to be: it lets go of all its pods then.
func ends(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type != batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
}

// without is a list but for one of its words.
func without(all []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == word })
}
