// Package cronjob creates a Job each time that the schedule of a CronJob is due. decide.go says
// what to do at an instant; schedule.go parses schedules; memory.go keeps the statuses that a view
// may not show yet; controller.go watches, decides and acts.
package cronjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Schedule says when Jobs are due.
type Schedule interface {
	// Next returns the first time after t; the zero time if there is none.
	Next(t time.Time) time.Time
}

// View is the state of one CronJob.
type View struct {
	CronJob *batchv1.CronJob
	// Jobs are the Jobs that the CronJob controls, by name.
	Jobs []*batchv1.Job
	// Missing are active Jobs that the API says are gone.
	Missing map[types.UID]bool
	// StoredStatus is the status that the API is known to have. CronJob.Status is the one that it
	// should have.
	StoredStatus batchv1.CronJobStatus
	// Schedule is nil if the CronJob's schedule cannot be parsed; Problem says why.
	Schedule Schedule
	Problem  Event
	Zone     *time.Location
}

// OwnerName returns the name of the CronJob that controls a Job; empty if none does.
func OwnerName(job *batchv1.Job) string {
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil && owner.Kind == "CronJob" {
		return owner.Name
	}
	return ""
}

// NewView returns the view of a CronJob that controls these Jobs.
func NewView(cronJob *batchv1.CronJob, jobs []*batchv1.Job) View {
	v := View{CronJob: cronJob, Jobs: jobs, Missing: map[types.UID]bool{}, StoredStatus: cronJob.Status}
	v.Schedule, v.Zone, v.Problem = parseSchedule(cronJob)
	return v
}

// UnseenActive returns the active Jobs that the view does not show. The API must be asked about
// them.
func (v *View) UnseenActive() (unseen []corev1.ObjectReference) {
	for _, ref := range v.CronJob.Status.Active {
		if !slices.ContainsFunc(v.Jobs, func(job *batchv1.Job) bool { return job.UID == ref.UID }) {
			unseen = append(unseen, ref)
		}
	}
	return unseen
}

// RecordLookup records the API's answer about an active Job. It returns an error that does not tell
// whether the Job exists.
func (v *View) RecordLookup(ref corev1.ObjectReference, job *batchv1.Job, err error) error {
	switch {
	case apierrors.IsNotFound(err), err == nil && job.UID != ref.UID:
		v.Missing[ref.UID] = true
		return nil
	}
	return err
}

// Plan is what to do, in this order.
type Plan struct {
	Events []Event
	// Replace are the Jobs that make room for the next one. Delete are the Jobs beyond the history
	// limits.
	Replace, Delete []*batchv1.Job
	Create          *batchv1.Job
	// Status is the new status once the plan is carried out, and StatusIfFailed the one if
	// something failed.
	Status, StatusIfFailed batchv1.CronJobStatus
	// RequeueAfter is when to sync again; 0 means when something changes.
	RequeueAfter time.Duration
}

// Event is one event about the CronJob.
type Event struct{ Type, Reason, Message string }

// planning is a plan that is being made.
type planning struct {
	View
	Plan
	now time.Time
}

// startMargin is how long after its time a Job is created, so that it is never created too early.
const startMargin = 100 * time.Millisecond

// missedLimit is how many times may be missed before an event warns of it.
const missedLimit = 100

// Decide returns what to do at now (syncCronJob).
func Decide(v View, now time.Time) Plan {
	s := &planning{View: v, now: now}
	s.Status = *v.CronJob.Status.DeepCopy()
	s.updateActive()
	s.planHistoryCleanup()
	s.StatusIfFailed = *s.Status.DeepCopy()
	switch {
	case s.CronJob.DeletionTimestamp != nil, s.CronJob.Spec.Suspend != nil && *s.CronJob.Spec.Suspend:
	case s.Schedule == nil:
		s.Events = append(s.Events, s.Problem)
	default:
		s.planDueJob()
	}
	return s.Plan
}

// updateActive removes Jobs that are finished or gone from the active ones.
func (s *planning) updateActive() {
	for _, job := range s.Jobs {
		active := slices.ContainsFunc(s.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID })
		condition := finishedCondition(job)
		switch {
		case !active && condition == "":
			s.addEvent(corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: "+job.Name)
		case active && condition != "":
			s.removeActive(job.UID)
			s.addEvent(corev1.EventTypeNormal, "SawCompletedJob", fmt.Sprintf("Saw completed job: %s, condition: %v", job.Name, condition))
		}
		if done := job.Status.CompletionTime; condition == batchv1.JobComplete && done != nil &&
			(s.Status.LastSuccessfulTime == nil || done.After(s.Status.LastSuccessfulTime.Time)) {
			s.Status.LastSuccessfulTime = done
		}
	}
	for _, ref := range slices.Clone(s.Status.Active) {
		if s.Missing[ref.UID] {
			s.addEvent(corev1.EventTypeNormal, "MissingJob", "Active job went missing: "+ref.Name)
			s.removeActive(ref.UID)
		}
	}
}

// finishedCondition returns the condition with which a Job has ended; empty if it has not.
func finishedCondition(job *batchv1.Job) batchv1.JobConditionType {
	for _, condition := range job.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			return condition.Type
		}
	}
	return ""
}

func (s *planning) removeActive(uid types.UID) {
	s.Status.Active = slices.DeleteFunc(slices.Clone(s.Status.Active), func(ref corev1.ObjectReference) bool { return ref.UID == uid })
	if len(s.Status.Active) == 0 {
		s.Status.Active = nil
	}
}

// planHistoryCleanup plans to delete the oldest finished Jobs (cleanupFinishedJobs).
func (s *planning) planHistoryCleanup() {
	s.deleteOldest(batchv1.JobComplete, valueOr(s.CronJob.Spec.SuccessfulJobsHistoryLimit, 3))
	s.deleteOldest(batchv1.JobFailed, valueOr(s.CronJob.Spec.FailedJobsHistoryLimit, 1))
}

// deleteOldest plans to delete all but the newest limit Jobs that ended with a condition.
func (s *planning) deleteOldest(kind batchv1.JobConditionType, limit int32) {
	var over []*batchv1.Job
	for _, job := range s.Jobs {
		if finishedCondition(job) == kind {
			over = append(over, job)
		}
	}
	slices.SortFunc(over, func(a, b *batchv1.Job) int {
		return cmp.Or(startTime(a).Compare(startTime(b)), cmp.Compare(a.Name, b.Name))
	})
	s.Delete = append(s.Delete, over[:max(len(over)-int(limit), 0)]...)
}

func startTime(job *batchv1.Job) time.Time {
	if job.Status.StartTime == nil {
		return job.CreationTimestamp.Time
	}
	return job.Status.StartTime.Time
}

// planDueJob plans the Job that is due, if there is one.
func (s *planning) planDueJob() {
	due, missed, next := s.dueTimes()
	if !next.IsZero() {
		s.RequeueAfter = max(next.Add(startMargin).Sub(s.now), 0)
	}
	// A clock that is behind the last time takes the next for far away, and nothing says when it is
	// right again.
	if soon := s.Schedule.Next(s.now.In(s.Zone)); !soon.IsZero() {
		s.RequeueAfter = min(s.RequeueAfter, soon.Add(startMargin).Sub(s.now))
	}
	if due.IsZero() || (s.Status.LastScheduleTime != nil && s.Status.LastScheduleTime.Time.Equal(due)) {
		return
	}
	if missed > missedLimit {
		s.addEvent(corev1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if limit := s.CronJob.Spec.StartingDeadlineSeconds; limit != nil && due.Add(time.Duration(*limit)*time.Second).Before(s.now) {
		s.addEvent(corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: "+due.UTC().Format(time.RFC1123Z))
		return
	}
	job := s.newJob(due)
	if slices.ContainsFunc(s.Status.Active, func(ref corev1.ObjectReference) bool { return ref.Name == job.Name }) {
		return
	}
	switch s.CronJob.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(s.Status.Active) > 0 {
			s.addEvent(corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
			return
		}
	case batchv1.ReplaceConcurrent:
		s.replace()
	case batchv1.AllowConcurrent:
	}
	s.Create = job
	s.Status.LastScheduleTime = &metav1.Time{Time: due}
}

// replace plans to delete the running Jobs.
func (s *planning) replace() {
	for _, job := range s.Jobs {
		if slices.ContainsFunc(s.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID }) {
			s.Replace = append(s.Replace, job)
			s.removeActive(job.UID)
		}
	}
}

// dueTimes returns the latest missed time, which is due, how many times were missed, and the next
// one; the zero time if there is none (mostRecentScheduleTime).
func (s *planning) dueTimes() (due time.Time, missed int64, next time.Time) {
	from := s.CronJob.CreationTimestamp.Time
	if last := s.CronJob.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	if limit := s.CronJob.Spec.StartingDeadlineSeconds; limit != nil {
		if earliest := s.now.Add(-time.Duration(*limit) * time.Second); earliest.After(from) {
			from = earliest
		}
	}
	from, now := from.In(s.Zone), s.now
	first := s.Schedule.Next(from)
	if first.IsZero() || first.After(now) {
		return time.Time{}, 0, first
	}
	due, missed = s.skipMissed(first)
	for next = s.Schedule.Next(due); !next.IsZero() && !next.After(now); next = s.Schedule.Next(due) {
		due = next
		missed++
	}
	return due, missed, next
}

// skipMissed skips most of a long series of missed times at once. It returns a time near the latest
// missed one and about how many there are from first to that time.
func (s *planning) skipMissed(first time.Time) (near time.Time, missed int64) {
	second := s.Schedule.Next(first)
	between := second.Sub(first)
	if second.IsZero() || between <= 0 {
		return first, 1
	}
	skipped := int64(s.now.Sub(first)/between) - 1
	if skipped <= 0 {
		return first, 1
	}
	if near = s.Schedule.Next(first.Add(time.Duration(skipped-1) * between)); near.After(s.now) {
		return first, 1
	}
	return near, 1 + skipped
}

// newJob returns the Job of a time. Its name is made from the time, so that no time gets two Jobs
// (getJobFromTemplate2).
func (s *planning) newJob(due time.Time) *batchv1.Job {
	template := s.CronJob.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = due.In(s.Zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.CronJob.Namespace, Name: fmt.Sprintf("%s-%d", s.CronJob.Name, due.Unix()/60),
			Labels: maps.Clone(template.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.CronJob, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		},
		Spec: template.Spec,
	}
}

// WithActive returns a status with a Job added to the active ones.
func WithActive(status batchv1.CronJobStatus, job *batchv1.Job) batchv1.CronJobStatus {
	status.Active = append(slices.Clone(status.Active), corev1.ObjectReference{
		APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion,
	})
	return status
}

// IsUnfinishedJobOf reports whether an existing Job with the name of the Job to be created is that
// Job, created earlier, and has not finished. It returns an error if the Job belongs to something
// else.
func IsUnfinishedJobOf(cronJob *batchv1.CronJob, job *batchv1.Job) (bool, error) {
	if !metav1.IsControlledBy(job, cronJob) {
		return false, fmt.Errorf("job %s/%s: want it to be of CronJob %s, but it is another's", job.Namespace, job.Name, cronJob.Name)
	}
	return finishedCondition(job) == "", nil
}

func (s *planning) addEvent(kind, reason, message string) {
	s.Events = append(s.Events, Event{kind, reason, message})
}

func valueOr(value *int32, otherwise int32) int32 {
	if value == nil {
		return otherwise
	}
	return *value
}
