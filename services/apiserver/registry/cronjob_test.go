package registry

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWhenCronJobsAreDue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ schedule, zone, want string }{
		{"*/5 9-17 * jan-mar mon,fri", "Europe/Berlin", ""},
		{"*-5 * * * *", "Etc/GMT+1", ""},
		{"@every 90s", "UTC", ""},
		{"", "UTC", "spec.schedule: Required value"},
		{"* * * *", "UTC", "expected exactly 5 fields, found 4"},
		{"*/-5 * * * *", "UTC", "negative number (-5) not allowed: -5"},
		{"@every soon", "UTC", "failed to parse duration @every soon"},
		{"@fortnightly", "UTC", "unrecognized descriptor: @fortnightly"},
		{"TZ=0", "UTC", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"},
		{"@daily", "", "timeZone must be nil or non-empty string"},
		{"@daily", "Local", "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"},
		{"@daily", "../etc", "unknown time zone ../etc"},
		{"@daily", "-Europe/Berlin", "unknown time zone -Europe/Berlin"},
		{"@daily", "Europe/Atlantis", "unknown time zone Europe/Atlantis"},
	} {
		job := &batchv1.CronJob{}
		job.Spec.Schedule, job.Spec.TimeZone = tt.schedule, &tt.zone
		var got []string
		for _, err := range validateCronJob(job, &batchv1.CronJob{}) {
			if strings.HasPrefix(err.Field, "spec.schedule") || strings.HasPrefix(err.Field, "spec.timeZone") {
				got = append(got, err.Error())
			}
		}
		if told := strings.Join(got, "; "); len(got) > 1 || !strings.Contains(told, tt.want) || (tt.want == "") != (told == "") {
			t.Errorf("%q in %q: %q, want %q", tt.schedule, tt.zone, told, tt.want)
		}
	}
}

// TestAZoneThatIsGone may stay with a CronJob, and may not be given to another.
func TestAZoneThatIsGone(t *testing.T) {
	t.Parallel()
	gone := &batchv1.CronJob{}
	gone.Spec.Schedule, gone.Spec.TimeZone = "@daily", new("Europe/Atlantis")
	other := gone.DeepCopy()
	other.Spec.TimeZone = new("UTC")
	for old, want := range map[*batchv1.CronJob]bool{gone: false, other: true, {}: true} {
		told := slices.ContainsFunc(validateCronJob(gone, old), func(err *field.Error) bool { return err.Field == "spec.timeZone" })
		if told != want {
			t.Errorf("behind %+v: refused %v, want %v", old.Spec.TimeZone, told, want)
		}
	}
}
