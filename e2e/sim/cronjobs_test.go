package sim

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCronJobs has Jobs that take longer than the time to the next be made under each policy, and
// their CronJob be held up, deleted and made again: in the end everything is right.
func TestCronJobs(t *testing.T) {
	for policy, wanted := range map[batchv1.ConcurrencyPolicy]int{
		batchv1.AllowConcurrent: 12, batchv1.ForbidConcurrent: 8, batchv1.ReplaceConcurrent: 12,
	} {
		t.Run(string(policy), func(t *testing.T) {
			tick := Action{Kind: CreateCronJob, Name: cronJobName, Count: 1, Grace: new(int64(1)), App: App{Runs: 90 * time.Second}}
			tick.Shape.CronJob = CronJobOptions{Schedule: "0-13 0 * * *", Policy: policy, Good: new(int32(4))}
			tick.At = 10 * time.Second
			again := tick
			again.At = 6*time.Minute + 30*time.Second
			result := runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 18 * time.Minute, FaultsEnd: 7 * time.Minute, Actions: []Action{
				tick,
				{At: 3*time.Minute + 30*time.Second, Kind: SuspendCronJob, Name: cronJobName},
				{At: 5*time.Minute + 30*time.Second, Kind: ResumeCronJob, Name: cronJobName},
				{At: 6*time.Minute + 10*time.Second, Kind: DeleteCronJob, Name: cronJobName, Policy: metav1.DeletePropagationOrphan},
				again,
			}})
			if _, err := Judge(result); err != nil {
				t.Fatal(err)
			}
			if made := result.Coverage["cronjobs: create jobs.batch"]; made != wanted {
				t.Errorf("%d Jobs were made, want %d: %v", made, wanted, result.Coverage)
			}
		})
	}
}

// TestHeldBy has a Job keep the next from being made: it is one of an earlier time, is there when
// that is due, and runs until it is too late.
func TestHeldBy(t *testing.T) {
	due := dueTime("tick-1001")
	for _, c := range []struct {
		name        string
		made        string
		after, runs time.Duration
		want        bool
	}{
		{"made long before", "tick-1000", -time.Minute, 2 * time.Minute, true},
		{"late, and asked for just before the next was due", "tick-1000", 0, time.Minute, true},
		{"so late that the next had been due already", "tick-1000", time.Second, time.Minute, false},
		{"of a later time", "tick-1002", 0, time.Minute, false},
		{"over too soon", "tick-1000", -time.Minute, 90 * time.Second, false},
	} {
		from := due.Add(c.after)
		if got := heldBy([]jobRun{{name: c.made, from: from, to: from.Add(c.runs)}}, due, due.Add(time.Minute)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestNameTaken has the name of a Job be another's when it is due: that of a CronJob of the same name,
// made before, and there until it is too late.
func TestNameTaken(t *testing.T) {
	its := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tick", UID: "now"}}
	due := dueTime("tick-1001")
	until := due.Add(time.Minute)
	for name, c := range map[string]struct {
		owner string
		made  jobRun
		want  bool
	}{
		"left behind":              {"before", jobRun{name: "default/tick-1001", from: due.Add(-time.Hour), exists: true}, true},
		"left behind, and over":    {"before", jobRun{name: "default/tick-1001", from: due.Add(-time.Hour), to: due.Add(-time.Minute), exists: true}, true},
		"gone when it is too late": {"before", jobRun{name: "default/tick-1001", from: due.Add(-time.Hour), to: until}, true},
		"gone before":              {"before", jobRun{name: "default/tick-1001", from: due.Add(-time.Hour), to: due.Add(30 * time.Second)}, false},
		"its own":                  {"now", jobRun{name: "default/tick-1001", from: due.Add(-time.Hour), exists: true}, false},
		"of another time":          {"before", jobRun{name: "default/tick-1002", from: due.Add(-time.Hour), exists: true}, false},
		"of another name":          {"before", jobRun{name: "default/tock-1001", from: due.Add(-time.Hour), exists: true}, false},
		"made later":               {"before", jobRun{name: "default/tick-1001", from: due.Add(time.Second), exists: true}, false},
	} {
		if got := nameTaken(map[string][]jobRun{c.owner: {c.made}}, its, due, until); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
