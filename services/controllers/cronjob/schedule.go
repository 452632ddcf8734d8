package cronjob

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// parseSchedule parses a CronJob's schedule and its time zone, which is UTC if it names none. A
// parse error becomes an event.
func parseSchedule(cronJob *batchv1.CronJob) (Schedule, *time.Location, Event) {
	zone := time.UTC
	if name := cronJob.Spec.TimeZone; name != nil && *name != "" {
		loaded, err := time.LoadLocation(*name)
		if err != nil {
			return nil, zone, Event{corev1.EventTypeWarning, "UnknownTimeZone", fmt.Sprintf("invalid timeZone: %q: %s", *name, err)}
		}
		zone = loaded
	}
	schedule, err := cron.ParseStandard(cronJob.Spec.Schedule)
	if err != nil {
		return nil, zone, Event{corev1.EventTypeWarning, "UnparseableSchedule", fmt.Sprintf("unparseable schedule: %q : %s", cronJob.Spec.Schedule, err)}
	}
	if spec, ok := schedule.(*cron.SpecSchedule); ok && spec.Location == time.Local {
		spec.Location = zone
	}
	return schedule, zone, Event{}
}
