package registry

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// jobStatusUpdate is an update of a Job's status. Most checks apply only if the field that they are
// about changes, so that an invalid status can be repaired step by step (ValidateJobUpdateStatus,
// getStatusValidationOptions).
type jobStatusUpdate struct {
	*findings

	job, old *batchv1.Job
	at       *field.Path
}

func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	u := jobStatusUpdate{&findings{}, job, old, field.NewPath("status")}
	u.checkCounts()
	u.checkUncounted()
	u.checkConditions()
	u.checkTimes()
	u.checkFinished()
	u.checkIndexes()
	u.checkReady()
	u.checkMonotonic()
	return u.errs
}

// hasJobCondition reports whether a condition of a Job is true.
func hasJobCondition(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func isJobFinished(job *batchv1.Job) bool {
	return hasJobCondition(job, batchv1.JobComplete) || hasJobCondition(job, batchv1.JobFailed)
}

// changes reports whether any of the conditions becomes true, or stops being true.
func (u jobStatusUpdate) changes(conditions ...batchv1.JobConditionType) bool {
	return slices.ContainsFunc(conditions, func(kind batchv1.JobConditionType) bool {
		return hasJobCondition(u.job, kind) != hasJobCondition(u.old, kind)
	})
}

func (u jobStatusUpdate) invalidConditions(message string) {
	u.invalid(u.at.Child("conditions"), field.OmitValueType{}, message)
}

func (u jobStatusUpdate) checkCounts() {
	status := &u.job.Status
	checkNotNegatives(u.findings, u.at, number("active", status.Active), number("succeeded", status.Succeeded), number("failed", status.Failed),
		namedNumber[int32]{"ready", status.Ready}, namedNumber[int32]{"terminating", status.Terminating})
}

// checkUncounted requires each pod to be named once.
func (u jobStatusUpdate) checkUncounted() {
	waiting := u.job.Status.UncountedTerminatedPods
	if waiting == nil {
		return
	}
	seen, at := map[types.UID]bool{}, u.at.Child("uncountedTerminatedPods")
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", waiting.Succeeded}, {"failed", waiting.Failed}} {
		for i, uid := range list.uids {
			switch at := at.Child(list.name).Index(i); {
			case uid == "":
				u.invalid(at, uid, "must not be empty")
			case seen[uid]:
				u.add(field.Duplicate(at, uid))
			}
			seen[uid] = true
		}
	}
}

// checkConditions requires the order of conditions before an end: announcing conditions stay, and
// no Job is both complete and failed.
func (u jobStatusUpdate) checkConditions() {
	const complete, failed, fails, succeeds = batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet
	job, old := u.job, u.old
	for _, rule := range []struct {
		wrong   bool
		message string
	}{
		{u.changes(complete, failed) && hasJobCondition(job, complete) && hasJobCondition(job, failed), "cannot set Complete=True and Failed=true conditions"},
		{u.changes(complete, fails) && hasJobCondition(job, complete) && hasJobCondition(job, fails), "cannot set Complete=True and FailureTarget=true conditions"},
		{u.changes(failed, fails) && hasJobCondition(job, failed) && !hasJobCondition(job, fails), "cannot set Failed=True condition without the FailureTarget=true condition"},
		{
			u.changes(complete, succeeds) && hasJobCondition(job, complete) && !hasJobCondition(job, succeeds),
			"cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
		},
		{hasJobCondition(job, succeeds) && hasJobCondition(job, failed), "cannot set SuccessCriteriaMet=True and Failed=true conditions"},
		{hasJobCondition(job, succeeds) && hasJobCondition(job, fails), "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"},
		{
			job.Spec.SuccessPolicy != nil && hasJobCondition(job, complete) && !hasJobCondition(job, succeeds),
			"cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
		},
		{hasJobCondition(old, failed) && !hasJobCondition(job, failed), "cannot disable the terminal Failed=True condition"},
		{hasJobCondition(old, complete) && !hasJobCondition(job, complete), "cannot disable the terminal Complete=True condition"},
		{hasJobCondition(old, fails) && !hasJobCondition(job, fails), "cannot disable the terminal FailureTarget=True condition"},
		{hasJobCondition(old, succeeds) && !hasJobCondition(job, succeeds), "cannot disable the SuccessCriteriaMet=True condition"},
		{
			hasJobCondition(old, complete) && !hasJobCondition(old, succeeds) && hasJobCondition(job, succeeds),
			"cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
		},
	} {
		if rule.wrong {
			u.invalidConditions(rule.message)
		}
	}
}

// checkTimes checks startTime and completionTime.
func (u jobStatusUpdate) checkTimes() {
	now, was := &u.job.Status, &u.old.Status
	starts, completes := !kinds.Equal(now.StartTime, was.StartTime), !kinds.Equal(now.CompletionTime, was.CompletionTime)
	at, complete := u.at.Child("completionTime"), hasJobCondition(u.job, batchv1.JobComplete)
	if completes || u.changes(batchv1.JobComplete) {
		switch {
		case now.CompletionTime != nil && !complete:
			u.invalid(at, now.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		case now.CompletionTime == nil && complete:
			u.required(at, "completionTime is required for Complete jobs")
		}
	}
	if (starts || completes) && now.StartTime != nil && now.CompletionTime != nil && now.CompletionTime.Before(now.StartTime) {
		u.invalid(at, now.CompletionTime, "completionTime cannot be set before startTime")
	}
	if completes && now.CompletionTime != nil && was.CompletionTime != nil {
		u.invalid(at, now.CompletionTime, "completionTime cannot be mutated")
	}
	resumes := hasJobCondition(u.old, batchv1.JobSuspended) && !hasJobCondition(u.job, batchv1.JobSuspended)
	if starts && was.StartTime != nil && !u.isSuspended() && !resumes {
		u.required(u.at.Child("startTime"), "startTime cannot be removed for unsuspended job")
	}
}

// isSuspended reports whether the Job is to have no pods for now.
func (u jobStatusUpdate) isSuspended() bool { return u.job.Spec.Suspend != nil && *u.job.Spec.Suspend }

// checkFinished requires a finished Job to have no active, terminating or uncounted Pods.
func (u jobStatusUpdate) checkFinished() {
	now, was := &u.job.Status, &u.old.Status
	if !isJobFinished(u.job) {
		return
	}
	ends := !isJobFinished(u.old)
	if (ends || now.Active != was.Active) && now.Active > 0 {
		u.invalid(u.at.Child("active"), now.Active, "active>0 is invalid for finished job")
	}
	idle := u.isSuspended() && u.job.Spec.Completions != nil && *u.job.Spec.Completions == 0 // it never began (kubernetes 132614)
	if (ends || !kinds.Equal(now.StartTime, was.StartTime)) && now.StartTime == nil && !idle {
		u.required(u.at.Child("startTime"), "startTime is required for finished job")
	}
	if waiting := now.UncountedTerminatedPods; (ends || !kinds.Equal(waiting, was.UncountedTerminatedPods)) &&
		waiting != nil && len(waiting.Succeeded)+len(waiting.Failed) > 0 {
		u.invalid(u.at.Child("uncountedTerminatedPods"), waiting, "uncountedTerminatedPods needs to be empty for finished job")
	}
	if (ends || !kinds.Equal(now.Terminating, was.Terminating)) && now.Terminating != nil && *now.Terminating > 0 {
		u.invalid(u.at.Child("terminating"), *now.Terminating, "terminating>0 is invalid for finished job")
	}
}

// checkIndexes refuses an index that is both completed and failed, and indexes of a Job that has
// none.
func (u jobStatusUpdate) checkIndexes() {
	now, spec := &u.job.Status, &u.job.Spec
	done := now.CompletedIndexes != u.old.Status.CompletedIndexes
	lost := !kinds.Equal(now.FailedIndexes, u.old.Status.FailedIndexes)
	atDone, atLost := u.at.Child("completedIndexes"), u.at.Child("failedIndexes")
	if done && now.CompletedIndexes != "" && (spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion) {
		u.invalid(atDone, now.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if lost && now.FailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		u.invalid(atLost, *now.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if spec.Completions == nil {
		return
	}
	succeeded, err := parseSpans(now.CompletedIndexes, *spec.Completions)
	if done && err != nil {
		u.invalid(atDone, now.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
	}
	if now.FailedIndexes == nil {
		return
	}
	failed, err := parseSpans(*now.FailedIndexes, *spec.Completions)
	if lost && err != nil && spec.BackoffLimitPerIndex != nil {
		u.invalid(atLost, *now.FailedIndexes, "error parsing failedIndexes: "+err.Error())
	}
	if index, both := firstCommonIndex(succeeded, failed); both && (done || lost) {
		u.invalid(atLost, *now.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", index))
	}
}

// checkReady refuses more ready than active Pods.
func (u jobStatusUpdate) checkReady() {
	now, was := &u.job.Status, &u.old.Status
	changes := now.Active != was.Active || !kinds.Equal(now.Ready, was.Ready)
	if changes && now.Ready != nil && *now.Ready > now.Active {
		u.invalid(u.at.Child("ready"), *now.Ready, "cannot set more ready pods than active")
	}
}

// checkMonotonic refuses counters that decrease, except successes of an elastic indexed Job.
func (u jobStatusUpdate) checkMonotonic() {
	now, was, spec := &u.job.Status, &u.old.Status, &u.job.Spec
	if now.Failed < was.Failed {
		u.invalid(u.at.Child("failed"), now.Failed, "cannot decrease the failed counter")
	}
	elastic := spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion && kinds.Equal(spec.Completions, spec.Parallelism)
	if now.Succeeded < was.Succeeded && !elastic {
		u.invalid(u.at.Child("succeeded"), now.Succeeded, "cannot decrease the succeeded counter")
	}
}
