// Package cronjob makes a Job each time that a CronJob's schedule says so. decide.go says what
// is to be done at an instant; schedule.go reads schedules; controller.go watches, asks and
// acts.
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

// Schedule is when Jobs are due.
type Schedule interface {
	// Next is the first time after t; the zero time when there is none.
	Next(t time.Time) time.Time
}

// View is what is known of one CronJob.
type View struct {
	CronJob *batchv1.CronJob
	// Jobs are those that it controls, by name.
	Jobs []*batchv1.Job
	// Missing are active Jobs that the API says are gone.
	Missing map[types.UID]bool
	// Said is the status that the API is known to have; CronJob.Status is what it ought to have.
	Said batchv1.CronJobStatus
	// Schedule is nil when the CronJob's cannot be read; Problem says why.
	Schedule Schedule
	Problem  Event
	Zone     *time.Location
}

// Maker is the name of the CronJob that controls a Job; empty when none does.
func Maker(job *batchv1.Job) string {
	if owner := metav1.GetControllerOfNoCopy(job); owner != nil && owner.Kind == "CronJob" {
		return owner.Name
	}
	return ""
}

// ViewOf is what is known of a CronJob that controls these Jobs.
func ViewOf(cronJob *batchv1.CronJob, jobs []*batchv1.Job) View {
	v := View{CronJob: cronJob, Jobs: jobs, Missing: map[types.UID]bool{}, Said: cronJob.Status}
	v.Schedule, v.Zone, v.Problem = read(cronJob)
	return v
}

// Unseen are the active Jobs that the view does not show: the API is to be asked about them.
func (v *View) Unseen() (unseen []corev1.ObjectReference) {
	for _, ref := range v.CronJob.Status.Active {
		if !slices.ContainsFunc(v.Jobs, func(job *batchv1.Job) bool { return job.UID == ref.UID }) {
			unseen = append(unseen, ref)
		}
	}
	return unseen
}

// Learn takes the API's answer about an active Job; the error is of one that says nothing.
func (v *View) Learn(ref corev1.ObjectReference, job *batchv1.Job, err error) error {
	switch {
	case apierrors.IsNotFound(err), err == nil && job.UID != ref.UID:
		v.Missing[ref.UID] = true
		return nil
	}
	return err
}

// Plan is what to do, in this order.
type Plan struct {
	Tell []Event
	// Replace are the Jobs that make way for the next, Delete those that history does not
	// need any more.
	Replace, Delete []*batchv1.Job
	Create          *batchv1.Job
	// Status is what it is to say when this is done, Seen when something of it cannot be.
	Status, Seen batchv1.CronJobStatus
	// Again is how long to wait before the next look; 0 is until something changes.
	Again time.Duration
}

// Event is one event about the CronJob.
type Event struct{ Type, Reason, Message string }

// step is a plan in the making.
type step struct {
	View
	Plan
	now time.Time
}

// margin is how long after the time a Job is made, so that it never is before.
const margin = 100 * time.Millisecond

// missedLimit is how many times may be missed before somebody is told.
const missedLimit = 100

// Decide says what is to be done at now (syncCronJob).
func Decide(v View, now time.Time) Plan {
	s := &step{View: v, now: now}
	s.Status = *v.CronJob.Status.DeepCopy()
	s.lookAtJobs()
	s.trim()
	s.Seen = *s.Status.DeepCopy()
	switch {
	case s.CronJob.DeletionTimestamp != nil, s.CronJob.Spec.Suspend != nil && *s.CronJob.Spec.Suspend:
	case s.Schedule == nil:
		s.Tell = append(s.Tell, s.Problem)
	default:
		s.start()
	}
	return s.Plan
}

// lookAtJobs takes Jobs that are over, or gone, off the active ones.
func (s *step) lookAtJobs() {
	for _, job := range s.Jobs {
		active := slices.ContainsFunc(s.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID })
		condition := ended(job)
		switch {
		case !active && condition == "":
			s.say(corev1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: "+job.Name)
		case active && condition != "":
			s.drop(job.UID)
			s.say(corev1.EventTypeNormal, "SawCompletedJob", fmt.Sprintf("Saw completed job: %s, condition: %v", job.Name, condition))
		}
		if done := job.Status.CompletionTime; condition == batchv1.JobComplete && done != nil &&
			(s.Status.LastSuccessfulTime == nil || done.After(s.Status.LastSuccessfulTime.Time)) {
			s.Status.LastSuccessfulTime = done
		}
	}
	for _, ref := range slices.Clone(s.Status.Active) {
		if s.Missing[ref.UID] {
			s.say(corev1.EventTypeNormal, "MissingJob", "Active job went missing: "+ref.Name)
			s.drop(ref.UID)
		}
	}
}

// ended is the condition by which a Job is over; empty when it is not.
func ended(job *batchv1.Job) batchv1.JobConditionType {
	for _, condition := range job.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			return condition.Type
		}
	}
	return ""
}

func (s *step) drop(uid types.UID) {
	s.Status.Active = slices.DeleteFunc(slices.Clone(s.Status.Active), func(ref corev1.ObjectReference) bool { return ref.UID == uid })
	if len(s.Status.Active) == 0 {
		s.Status.Active = nil
	}
}

// trim plans to delete the oldest Jobs that are over (cleanupFinishedJobs).
func (s *step) trim() {
	s.keep(batchv1.JobComplete, valueOr(s.CronJob.Spec.SuccessfulJobsHistoryLimit, 3))
	s.keep(batchv1.JobFailed, valueOr(s.CronJob.Spec.FailedJobsHistoryLimit, 1))
}

// keep plans to delete all but the newest of the Jobs that have ended in one way.
func (s *step) keep(kind batchv1.JobConditionType, limit int32) {
	var over []*batchv1.Job
	for _, job := range s.Jobs {
		if ended(job) == kind {
			over = append(over, job)
		}
	}
	slices.SortFunc(over, func(a, b *batchv1.Job) int {
		return cmp.Or(begin(a).Compare(begin(b)), cmp.Compare(a.Name, b.Name))
	})
	s.Delete = append(s.Delete, over[:max(len(over)-int(limit), 0)]...)
}

func begin(job *batchv1.Job) time.Time {
	if job.Status.StartTime == nil {
		return job.CreationTimestamp.Time
	}
	return job.Status.StartTime.Time
}

// start plans the Job that is due, if one is.
func (s *step) start() {
	due, missed, next := s.times()
	if !next.IsZero() {
		s.Again = max(next.Add(margin).Sub(s.now), 0)
	}
	// A clock that is behind the last time takes the next for far away, and nothing says when it is
	// right again.
	if soon := s.Schedule.Next(s.now.In(s.Zone)); !soon.IsZero() {
		s.Again = min(s.Again, soon.Add(margin).Sub(s.now))
	}
	if due.IsZero() || (s.Status.LastScheduleTime != nil && s.Status.LastScheduleTime.Time.Equal(due)) {
		return
	}
	if missed > missedLimit {
		s.say(corev1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	if limit := s.CronJob.Spec.StartingDeadlineSeconds; limit != nil && due.Add(time.Duration(*limit)*time.Second).Before(s.now) {
		s.say(corev1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: "+due.UTC().Format(time.RFC1123Z))
		return
	}
	job := s.job(due)
	if slices.ContainsFunc(s.Status.Active, func(ref corev1.ObjectReference) bool { return ref.Name == job.Name }) {
		return
	}
	switch s.CronJob.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(s.Status.Active) > 0 {
			s.say(corev1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
			return
		}
	case batchv1.ReplaceConcurrent:
		s.replace()
	case batchv1.AllowConcurrent:
	}
	s.Create = job
	s.Status.LastScheduleTime = &metav1.Time{Time: due}
}

// replace plans to delete the Jobs that run.
func (s *step) replace() {
	for _, job := range s.Jobs {
		if slices.ContainsFunc(s.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == job.UID }) {
			s.Replace = append(s.Replace, job)
			s.drop(job.UID)
		}
	}
}

// times is the time that is due, the latest of those that were missed, how many that are, and
// the next one; the zero time when there is none (mostRecentScheduleTime).
func (s *step) times() (due time.Time, missed int64, next time.Time) {
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
	due, missed = s.jump(first)
	for next = s.Schedule.Next(due); !next.IsZero() && !next.After(now); next = s.Schedule.Next(due) {
		due = next
		missed++
	}
	return due, missed, next
}

// jump passes most of a long time that was missed over at once: it is a time near the latest
// that was missed after first, and about how many there are up to it.
func (s *step) jump(first time.Time) (near time.Time, missed int64) {
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

// job is the Job of a time; one of that name exists once (getJobFromTemplate2).
func (s *step) job(due time.Time) *batchv1.Job {
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

// Started is a status with a Job among the active ones.
func Started(status batchv1.CronJobStatus, job *batchv1.Job) batchv1.CronJobStatus {
	status.Active = append(slices.Clone(status.Active), corev1.ObjectReference{
		APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion,
	})
	return status
}

// Runs reports whether the Job that has the name of one that was to be made is that one, made
// before, and not over; the error is another's.
func Runs(cronJob *batchv1.CronJob, job *batchv1.Job) (bool, error) {
	if !metav1.IsControlledBy(job, cronJob) {
		return false, fmt.Errorf("job %s/%s: want it to be of CronJob %s, but it is another's", job.Namespace, job.Name, cronJob.Name)
	}
	return ended(job) == "", nil
}

func (s *step) say(kind, reason, message string) {
	s.Tell = append(s.Tell, Event{kind, reason, message})
}

func valueOr(value *int32, otherwise int32) int32 {
	if value == nil {
		return otherwise
	}
	return *value
}
