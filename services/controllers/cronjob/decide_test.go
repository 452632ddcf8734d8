package cronjob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-11-21 "+text)
	if err != nil {
		panic(err)
	}
	return t
}

// tick is a CronJob of 10:00 that runs every hour on the hour.
func tick(edits ...func(*batchv1.CronJob)) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tick", CreationTimestamp: metav1.NewTime(at("10:00:30"))}}
	c.Spec.Schedule = "0 * * * *"
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func policy(p batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.ConcurrencyPolicy = p }
}

func within(seconds int64) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.StartingDeadlineSeconds = &seconds }
}

func last(text string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Status.LastScheduleTime = new(metav1.NewTime(at(text))) }
}

func active(names ...string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) {
		for _, name := range names {
			c.Status.Active = append(c.Status.Active, corev1.ObjectReference{Name: name, UID: types.UID(name)})
		}
	}
}
func suspended(c *batchv1.CronJob) { c.Spec.Suspend = new(true) }
func deleted(c *batchv1.CronJob)   { c.DeletionTimestamp = new(metav1.NewTime(at("10:30:00"))) }
func schedule(text string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.Schedule = text }
}

func zone(name string) func(*batchv1.CronJob) {
	return func(c *batchv1.CronJob) { c.Spec.TimeZone = &name }
}

func limits(good, bad int32) func(c *batchv1.CronJob) {
	return func(c *batchv1.CronJob) {
		c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = &good, &bad
	}
}

// jobs reads "a b:Complete c:Failed", the oldest first.
func jobs(text string) []*batchv1.Job {
	var all []*batchv1.Job
	for i, word := range strings.Fields(text) {
		name, condition, _ := strings.Cut(word, ":")
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		j.Status.StartTime = new(metav1.NewTime(at("09:00:00").Add(time.Duration(i) * time.Minute)))
		if condition != "" {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobConditionType(condition), Status: corev1.ConditionTrue}}
			j.Status.CompletionTime = j.Status.StartTime
		}
		all = append(all, j)
	}
	return all
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		tick *batchv1.CronJob
		now  string
		jobs string
		want string
	}{
		{"not yet", tick(), "10:59:59", "", "again 1.1s"},
		{"now", tick(), "11:00:00", "", "+11:00 again 1h0m0.1s"},
		{"late", tick(), "11:20:00", "", "+11:00 again 40m0.1s"},
		{"the latest of those that were missed", tick(), "14:20:00", "", "+14:00 again 40m0.1s"},
		{"done already", tick(last("11:00:00")), "11:20:00", "", "again 40m0.1s"},
		{"the next", tick(last("11:00:00")), "12:00:00", "", "+12:00 again 1h0m0.1s"},
		{"too late", tick(within(60)), "11:20:00", "", "again 40m0.1s"},
		{"not too late", tick(within(60)), "11:00:59", "", "+11:00 again 59m1.1s"},
		{"suspended", tick(suspended), "11:00:00", "", ""},
		{"deleted", tick(deleted), "11:00:00", "", ""},
		{"another runs", tick(active("a")), "11:00:00", "a", "+11:00 active a again 1h0m0.1s"},
		{"forbidden", tick(active("a"), policy(batchv1.ForbidConcurrent)), "11:00:00", "a", "active a again 1h0m0.1s JobAlreadyActive"},
		{"in its place", tick(active("a"), policy(batchv1.ReplaceConcurrent)), "11:00:00", "a", "+11:00 -a again 1h0m0.1s"},
		{"the other is over", tick(active("a"), policy(batchv1.ForbidConcurrent)), "11:00:00", "a:Complete", "+11:00 again 1h0m0.1s SawCompletedJob"},
		{"one that is not ours to know", tick(), "10:59:00", "a", "again 1m0.1s UnexpectedJob"},
		{"history", tick(limits(1, 0)), "10:59:00", "a:Complete b:Failed c:Complete d:Complete", "-a -c -b again 1m0.1s"},
		{"history when nothing is said", tick(), "10:59:00", "a:Complete b:Complete c:Complete d:Complete e:Failed f:Failed", "-a -e again 1m0.1s"},
		{"no schedule", tick(schedule("every day")), "11:00:00", "", "UnparseableSchedule"},
		{"no zone", tick(zone("Mars/Olympus")), "11:00:00", "", "UnknownTimeZone"},
		{"another zone", tick(schedule("30 20 * * *"), zone("Asia/Tokyo")), "11:40:00", "", "+11:30 again 23h50m0.1s"},
		{"in intervals", tick(schedule("@every 10m")), "10:45:00", "", "+10:40 again 5m30.1s"},
		{"many were missed", tick(schedule("* * * * *")), "14:20:30", "", "+14:20 again 30.1s TooManyMissedTimes"},
		{"never", tick(schedule("0 0 31 2 *")), "11:00:00", "", ""},
	} {
		plan := Decide(NewView(c.tick, jobs(c.jobs)), at(c.now))
		var words []string
		if plan.Create != nil {
			words = append(words, "+"+plan.Status.LastScheduleTime.UTC().Format("15:04"))
			if want := fmt.Sprintf("tick-%d", plan.Status.LastScheduleTime.Unix()/60); plan.Create.Name != want {
				t.Errorf("%s: called %s, want %s", c.name, plan.Create.Name, want)
			}
		}
		for _, job := range append(plan.Replace, plan.Delete...) {
			words = append(words, "-"+job.Name)
		}
		for _, ref := range plan.Status.Active {
			words = append(words, "active "+ref.Name)
		}
		if plan.RequeueAfter != 0 {
			words = append(words, "again "+plan.RequeueAfter.String())
		}
		for _, event := range plan.Events {
			words = append(words, event.Reason)
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	gone := Decide(View{CronJob: tick(suspended, active("a", "b")), Missing: map[types.UID]bool{"a": true}}, at("10:30:00"))
	if len(gone.Status.Active) != 1 || gone.Events[0].Reason != "MissingJob" {
		t.Errorf("a Job that is missing: %+v", gone)
	}
}

func TestViewLearnsOfJobsItDoesNotShow(t *testing.T) {
	v := NewView(tick(active("a", "b", "c")), jobs("a"))
	var unseen []string
	for _, ref := range v.UnseenActive() {
		unseen = append(unseen, ref.Name)
	}
	if got := strings.Join(unseen, " "); got != "b c" {
		t.Errorf("unseen: %q", got)
	}
	ref, there := v.CronJob.Status.Active[1], jobs("b")[0]
	if err := v.RecordLookup(ref, there, nil); err != nil || v.Missing["b"] {
		t.Errorf("a Job that is there: %v, missing %v", err, v.Missing)
	}
	if err := v.RecordLookup(ref, nil, apierrors.NewServiceUnavailable("down")); err == nil || v.Missing["b"] {
		t.Errorf("no answer: %v, missing %v", err, v.Missing)
	}
	there.UID = "another"
	if err := v.RecordLookup(ref, there, nil); err != nil || !v.Missing["b"] {
		t.Errorf("another of its name: %v, missing %v", err, v.Missing)
	}
	gone := apierrors.NewNotFound(batchv1.Resource("jobs"), "c")
	if err := v.RecordLookup(v.CronJob.Status.Active[2], nil, gone); err != nil || !v.Missing["c"] {
		t.Errorf("none: %v, missing %v", err, v.Missing)
	}
}

// TestOnceForATime has a CronJob be shown as it was before its Job was made, when that is over and
// gone: the controller remembers, also when the API has not taken what the CronJob is to say.
func TestOnceForATime(t *testing.T) {
	memory, shown := NewMemory(), tick()
	shown.UID = "tick"
	first := Decide(memory.NewView(shown, nil), at("11:00:00"))
	if first.Create == nil {
		t.Fatal("no Job is made")
	}
	stored := shown.DeepCopy()
	stored.Status, shown.ResourceVersion, stored.ResourceVersion = first.Status, "1", "2"
	for name, note := range map[string]func(){
		"handled": func() { memory.RecordHandled(shown, first.Status) }, "stored": func() { memory.RecordStored(stored) },
	} {
		note()
		v := memory.NewView(shown, nil)
		again := Decide(v, at("11:00:30"))
		if again.Create != nil || again.RequeueAfter == 0 {
			t.Errorf("%s: the Job is made again: %+v", name, again)
		}
		if says := kinds.Equal(v.StoredStatus, again.Status); says != (name == "stored") {
			t.Errorf("%s: that the API has the status already is %t", name, says)
		}
		if next := Decide(v, at("12:00:00")); next.Create == nil {
			t.Errorf("%s: the next Job is not made", name)
		}
	}
	another := shown.DeepCopy()
	another.UID = "another"
	if last := memory.NewView(another, nil).CronJob.Status.LastScheduleTime; last != nil {
		t.Errorf("another of its name has to say the same: %v", last)
	}
	memory.RecordStored(stored)
	memory.Forget(view.KeyOf(shown))
	if last := memory.NewView(shown, nil).CronJob.Status.LastScheduleTime; last != nil {
		t.Errorf("one that is gone is remembered: %v", last)
	}
}

// TestShownIsMeant has the view show what a CronJob has to say, with or without an answer of the
// API, and then a time before that, or none, which somebody has written since: it is believed.
func TestShownIsMeant(t *testing.T) {
	shown, known := tick(last("10:00:00")), tick(last("11:00:00"))
	shown.UID, known.UID = "tick", "tick"
	shown.ResourceVersion, known.ResourceVersion = "1", "2"
	for _, written := range []*batchv1.CronJob{tick(last("09:00:00")), tick()} {
		written.UID, written.ResourceVersion = "tick", "3"
		memory := NewMemory()
		memory.RecordStored(known)
		if v := memory.NewView(shown, nil); !kinds.Equal(v.CronJob.Status, known.Status) {
			t.Errorf("shown as it was before it was stored: %+v", v.CronJob.Status)
		}
		if v := memory.NewView(written, nil); !kinds.Equal(v.CronJob.Status, written.Status) || !kinds.Equal(v.StoredStatus, written.Status) {
			t.Errorf("shown as it became since: %+v, want %+v", v.CronJob.Status, written.Status)
		}
		memory.RecordHandled(shown, known.Status)
		for _, next := range []*batchv1.CronJob{known, written} {
			if v := memory.NewView(next, nil); !kinds.Equal(v.CronJob.Status, next.Status) {
				t.Errorf("no answer, and shown after that: %+v, want %+v", v.CronJob.Status, next.Status)
			}
		}
	}
}

// TestForbiddenBesideAJobNotShown has the Job before the next run when the CronJob is shown as it
// was before that one was made, and then as it became since.
func TestForbiddenBesideAJobNotShown(t *testing.T) {
	memory, shown := NewMemory(), tick(policy(batchv1.ForbidConcurrent))
	shown.UID = "tick"
	plan := Decide(memory.NewView(shown, nil), at("11:59:59"))
	memory.RecordHandled(shown, WithActive(plan.Status, jobs("a")[0]))
	if next := Decide(memory.NewView(shown, jobs("a")), at("12:00:00")); next.Create != nil {
		t.Errorf("a Job is made beside the one before: %+v", next)
	}
	if next := Decide(memory.NewView(shown, jobs("a:Complete")), at("12:00:00")); next.Create == nil || len(next.Status.Active) != 0 {
		t.Errorf("the one before is over, but none is made: %+v", next)
	}
	shown.Status = plan.Status
	if next := Decide(memory.NewView(shown, nil), at("12:00:00")); next.Create == nil {
		t.Errorf("the API says that none runs, but none is made: %+v", next)
	}
}

func TestRuns(t *testing.T) {
	its, over := jobs("a")[0], jobs("a:Failed")[0]
	owner := tick()
	owner.UID = "tick"
	for _, job := range []*batchv1.Job{its, over} {
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	}
	if runs, err := IsUnfinishedJobOf(owner, its); !runs || err != nil {
		t.Errorf("its own: %v, %v", runs, err)
	}
	if runs, err := IsUnfinishedJobOf(owner, over); runs || err != nil {
		t.Errorf("one that is over: %v, %v", runs, err)
	}
	if runs, err := IsUnfinishedJobOf(owner, jobs("a")[0]); runs || err == nil {
		t.Errorf("another's: %v, %v", runs, err)
	}
}

// TestLookAgainByAClockBehind: a clock that is a day behind the last time has it look again when a time
// of its own comes, and not after the day.
func TestLookAgainByAClockBehind(t *testing.T) {
	c := tick()
	c.Status.LastScheduleTime = &metav1.Time{Time: at("11:00:00").Add(24 * time.Hour)}
	plan := Decide(NewView(c, nil), at("11:30:00"))
	if want := 30*time.Minute + startMargin; plan.Create != nil || plan.RequeueAfter != want {
		t.Errorf("makes %v, and looks again after %v, want nothing and %v", plan.Create, plan.RequeueAfter, want)
	}
}
