package registry

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// cronJobRules are those of CronJobs.
func cronJobRules() rules[*batchv1.CronJob] {
	return rules[*batchv1.CronJob]{
		defaults: func(job *batchv1.CronJob) {
			fill(&job.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
			fillPointer(&job.Spec.Suspend, false)
			fillPointer(&job.Spec.SuccessfulJobsHistoryLimit, 3)
			fillPointer(&job.Spec.FailedJobsHistoryLimit, 1)
		},
		validate: validateCronJob,
	}
}

// maxCronJobName leaves room for what the names of its Jobs end in.
const maxCronJobName = 52

func validateCronJob(job *batchv1.CronJob) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &job.Spec
	if spec.Schedule == "" {
		f.required(at.Child("schedule"), "")
	} else if err := parseSchedule(spec.Schedule); err != nil {
		f.invalid(at.Child("schedule"), spec.Schedule, err.Error())
	}
	notNegatives(f, at, namedNumber[int64]{"startingDeadlineSeconds", spec.StartingDeadlineSeconds})
	if zone := spec.TimeZone; zone != nil && *zone == "" {
		f.invalid(at.Child("timeZone"), *zone, "timeZone must be nil or non-empty string")
	}
	oneOf(f, at.Child("concurrencyPolicy"), spec.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	template := at.Child("jobTemplate", "spec")
	f.jobSpec(template, &spec.JobTemplate.Spec)
	if manual := spec.JobTemplate.Spec.ManualSelector; manual != nil && *manual {
		f.add(field.NotSupported(template.Child("manualSelector"), *manual, []string{"nil", "false"}))
	}
	notNegatives(f, at, namedNumber[int32]{"successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit},
		namedNumber[int32]{"failedJobsHistoryLimit", spec.FailedJobsHistoryLimit})
	if len(job.Name) > maxCronJobName {
		f.invalid(field.NewPath("metadata").Child("name"), job.Name, "must be no more than 52 characters")
	}
	return f.errs
}

// parseSchedule reads a line of a crontab, and says what is wrong with it in the words of
// the parser that Kubernetes uses.
func parseSchedule(schedule string) error {
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if strings.HasPrefix(schedule, prefix) {
			return fmt.Errorf("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
		}
	}
	if strings.HasPrefix(schedule, "@") {
		return parseDescriptor(schedule)
	}
	fields := strings.Fields(schedule)
	if len(fields) != len(cronFields()) {
		return fmt.Errorf("expected exactly 5 fields, found %d: %s", len(fields), fields)
	}
	for i, limits := range cronFields() {
		for part := range strings.SplitSeq(fields[i], ",") {
			if err := limits.check(part); err != nil {
				return err
			}
		}
	}
	return nil
}

func parseDescriptor(schedule string) error {
	switch schedule {
	case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
		return nil
	}
	if strings.HasPrefix(schedule, "@every ") {
		return nil
	}
	return fmt.Errorf("unrecognized descriptor: %s", schedule)
}

// cronField are the numbers, and the names for them, that one place of a crontab takes.
type cronField struct {
	min, max int
	names    []string // of min and the following
}

func cronFields() []cronField {
	return []cronField{
		{0, 59, nil},
		{0, 23, nil},
		{1, 31, nil},
		{1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{0, 6, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// check reads one "*", "?", number, range or step.
func (c cronField) check(part string) error {
	span, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil {
			return fmt.Errorf("failed to parse int from %s: %w", step, err)
		} else if n == 0 {
			return fmt.Errorf("step of range should be a positive number: %s", part)
		}
	}
	if span == "*" || span == "?" {
		return nil
	}
	low, high, ranged := strings.Cut(span, "-")
	first, err := c.number(low)
	if err != nil {
		return err
	}
	last := first
	if ranged {
		if last, err = c.number(high); err != nil {
			return err
		}
	}
	switch {
	case first < c.min:
		return fmt.Errorf("beginning of range (%d) below minimum (%d): %s", first, c.min, part)
	case last > c.max:
		return fmt.Errorf("end of range (%d) above maximum (%d): %s", last, c.max, part)
	case first > last:
		return fmt.Errorf("beginning of range (%d) beyond end of range (%d): %s", first, last, part)
	}
	return nil
}

func (c cronField) number(text string) (int, error) {
	for i, name := range c.names {
		if strings.EqualFold(text, name) {
			return c.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("failed to parse int from %s: %w", text, err)
	}
	return n, nil
}
