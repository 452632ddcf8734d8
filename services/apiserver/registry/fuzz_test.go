package registry

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FuzzCronJob: a schedule that is taken is due later, or never, and its zone is one.
func FuzzCronJob(f *testing.F) {
	f.Fuzz(func(t *testing.T, schedule, zone string) {
		job := &batchv1.CronJob{}
		job.Spec.Schedule, job.Spec.TimeZone = schedule, &zone
		refused := map[string]*field.Error{}
		for _, err := range validateCronJob(job, &batchv1.CronJob{}) {
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

// FuzzCountIndexes: indexes that are taken rise, stay below the limit, and are as many as are
// written.
func FuzzCountIndexes(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, limit uint16) {
		count, err := countIndexes(text, int32(limit))
		if err != nil || text == "" {
			if count != 0 {
				t.Errorf("%q is %d indexes: %v", text, count, err)
			}
			return
		}
		all, last := int32(0), -1
		for part := range strings.SplitSeq(text, ",") {
			first, end, ranged := strings.Cut(part, "-")
			from, err := strconv.Atoi(first)
			to := from
			if ranged && err == nil {
				to, err = strconv.Atoi(end)
			}
			if err != nil || from <= last || to < from || to >= int(limit) {
				t.Fatalf("%q below %d was taken, with %q behind %d: %v", text, limit, part, last, err)
			}
			all, last = all+int32(to-from)+1, to
		}
		if all != count {
			t.Errorf("%q is %d indexes, its parts are %d", text, count, all)
		}
	})
}
