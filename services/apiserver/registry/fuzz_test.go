package registry

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FuzzCronJob: a schedule and a zone that are taken can be read by those who go by them; what is
// refused names its field.
func FuzzCronJob(f *testing.F) {
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		job := &batchv1.CronJob{}
		job.Spec.Schedule, job.Spec.TimeZone = schedule, &zone
		refused := map[string]*field.Error{}
		for _, err := range validateCronJob(job) {
			refused[err.Field] = err
		}
		if refused["spec.schedule"] == nil {
			parsed, err := cron.ParseStandard(schedule)
			if err != nil {
				t.Fatalf("%q was taken: %v", schedule, err)
			}
			if now := time.Unix(1_800_000_000, 0); !parsed.Next(now).After(now) && !parsed.Next(now).IsZero() {
				t.Errorf("%q is due at %v, after %v", schedule, parsed.Next(now), now)
			}
		}
		if refused["spec.timeZone"] == nil {
			if _, err := time.LoadLocation(zone); err != nil || zone == "" || strings.EqualFold(zone, "local") {
				t.Errorf("zone %q was taken: %v", zone, err)
			}
		}
	})
}

// FuzzCountIndexes: indexes that are taken rise below the limit, and are as many as are written.
func FuzzCountIndexes(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		count, err := countIndexes(text, int32(limit))
		if err != nil {
			return
		}
		if count < 0 || count > int32(limit) || (count == 0) != (text == "") {
			t.Errorf("%q below %d is %d indexes", text, limit, count)
		}
		all := int32(0)
		for part := range strings.SplitSeq(text, ",") {
			if text == "" {
				break
			}
			one, err := countIndexes(part, int32(limit))
			if err != nil || one == 0 {
				t.Errorf("%q was taken, but %q is %d: %v", text, part, one, err)
			}
			all += one
		}
		if all != count {
			t.Errorf("%q is %d indexes, its parts are %d", text, count, all)
		}
	})
}
