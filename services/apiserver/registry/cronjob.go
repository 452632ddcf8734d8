package registry

import (
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// cronJobRules returns the rules of CronJobs.
func cronJobRules() rules[*batchv1.CronJob] {
	return rules[*batchv1.CronJob]{
		defaults: func(job *batchv1.CronJob) {
			fill(&job.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
			fillPointer(&job.Spec.Suspend, false)
			fillPointer(&job.Spec.SuccessfulJobsHistoryLimit, 3)
			fillPointer(&job.Spec.FailedJobsHistoryLimit, 1)
		},
		validateCreate: func(job *batchv1.CronJob) field.ErrorList { return validateCronJob(job, &batchv1.CronJob{}) },
		validateUpdate: validateCronJob,
	}
}

// maxCronJobName leaves room for the suffix in the names of its Jobs.
const maxCronJobName = 52

// validateCronJob returns what is wrong with a CronJob that replaces old; old is empty for a new
// one.
func validateCronJob(job, old *batchv1.CronJob) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &job.Spec
	if spec.Schedule == "" {
		f.required(at.Child("schedule"), "")
	} else {
		f.checkSchedule(at.Child("schedule"), spec.Schedule)
	}
	checkNotNegatives(f, at, namedNumber[int64]{"startingDeadlineSeconds", spec.StartingDeadlineSeconds})
	if !kinds.Equal(spec.TimeZone, old.Spec.TimeZone) { // of what was there before there may be no zone any more
		f.checkTimeZone(at.Child("timeZone"), spec.TimeZone)
	}
	checkOneOf(f, at.Child("concurrencyPolicy"), spec.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	template := at.Child("jobTemplate", "spec")
	f.checkJobSpec(template, &spec.JobTemplate.Spec)
	if manual := spec.JobTemplate.Spec.ManualSelector; manual != nil && *manual {
		f.add(field.NotSupported(template.Child("manualSelector"), *manual, []string{"nil", "false"}))
	}
	checkNotNegatives(f, at, namedNumber[int32]{"successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit},
		namedNumber[int32]{"failedJobsHistoryLimit", spec.FailedJobsHistoryLimit})
	if len(job.Name) > maxCronJobName {
		f.invalid(field.NewPath("metadata").Child("name"), job.Name, "must be no more than 52 characters")
	}
	return f.errs
}

// checkSchedule checks a cron schedule (validateScheduleFormat). Time zones are refused before
// parsing, because cron.ParseStandard panics for some.
func (f *findings) checkSchedule(at *field.Path, schedule string) {
	if strings.Contains(schedule, "TZ") {
		f.invalid(at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
		return
	}
	if _, err := cron.ParseStandard(schedule); err != nil {
		f.invalid(at, schedule, err.Error())
	}
}

// zonePart matches a part of a time zone's name, between slashes.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13}$`)

// checkTimeZone checks a zone's name, and that the zone exists (validateTimeZone).
func (f *findings) checkTimeZone(at *field.Path, named *string) {
	if named == nil {
		return
	}
	zone := *named
	if zone == "" {
		f.invalid(at, zone, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			f.invalid(at, zone, "unknown time zone "+zone)
			return
		}
	}
	if strings.EqualFold(zone, "Local") {
		f.invalid(at, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(zone); err != nil {
		f.invalid(at, zone, err.Error())
	}
}
