package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/cronjob"
	"github.com/podfall/podfall/services/controllers/job"
)

// settled is how long after the calm CronJobs are as they should be.
const settled = time.Minute

// run is a Job of a CronJob: from when to when it was there, as far as is known, and whether it
// is there in the end, when that is when it was over. Times are whole seconds.
type run struct {
	name     string
	from, to time.Time
	there    bool
}

// rightCronJobs wants no Job to have been made twice, and of every CronJob that it says which of
// its Jobs run, keeps no more of the others than it may, and has made a Job each time since the
// calm that it should have, and no other.
func (c *cluster) rightCronJobs(snapshot *store.Snapshot, log []history.Event) (wrong []error) {
	jobs := objectsOf[*batchv1.Job](snapshot, "jobs.batch")
	runs, twice := runsOf(jobs, log, c.committed())
	for _, what := range twice {
		wrong = append(wrong, fmt.Errorf("%w: job %s was made twice", ErrCronJobs, what))
	}
	for _, its := range objectsOf[*batchv1.CronJob](snapshot, cronJobsResource) {
		mine := slices.DeleteFunc(slices.Clone(jobs), func(made *batchv1.Job) bool { return !metav1.IsControlledBy(made, its) })
		since := c.start.Add(c.script.Calm + settled)
		if its.CreationTimestamp.After(since) {
			since = its.CreationTimestamp.Time
		}
		looked := ahead(runs[string(its.UID)], c.lookedAt(its, since))
		what := wrongActive(its, mine)
		if what == "" {
			what = wrongPolicy(its, runs[string(its.UID)], since)
		}
		if what == "" && !*its.Spec.Suspend {
			what = wrongTimes(its, runs, looked, c.now.Add(-calmFor))
		}
		if what != "" {
			wrong = append(wrong, fmt.Errorf("%w: cronjob %s %s; its runs are %v, and its status is %s", ErrCronJobs, its.Name, what, runs[string(its.UID)], asJSON(its.Status)))
		}
	}
	return wrong
}

// lookedAt is when the controllers have looked at a CronJob, which was wanted right since then: how
// long they wait for its next time they say by their clock, and when that was wrong they look again
// when something about it has changed; the end of the life when nothing has.
func (c *cluster) lookedAt(its *batchv1.CronJob, since time.Time) time.Time {
	var wrong time.Duration
	for _, deed := range c.script.Deeds {
		if deed.Do == Mislead && deed.Name == Controllers {
			wrong = max(wrong, deed.At+deed.For)
		}
	}
	if wrong == 0 {
		return since
	}
	for _, e := range c.record.events {
		fact, is := e.Fact.(history.Commit)
		if is && (fact.UID == string(its.UID) || fact.Owner == string(its.UID)) && e.Ended > c.start.Add(wrong).UnixNano() {
			return latestOf(since, time.Unix(0, e.Ended).Add(time.Second))
		}
	}
	return c.now
}

// ahead is since, or the time of the last Job that was made before it was due, by a clock that was
// ahead: as upstream's, its CronJob makes none for an earlier one any more.
func ahead(runs []run, since time.Time) time.Time {
	for _, r := range runs {
		if due := minuteOf(r.name); due.After(r.from) {
			since = latestOf(since, due)
		}
	}
	return since
}

// committed is when the revisions were made that the apiserver has lived to tell of, whatever its clock
// showed.
func (c *cluster) committed() map[int64]time.Time {
	all := map[int64]time.Time{}
	for _, e := range c.record.events {
		if fact, is := e.Fact.(history.Commit); is {
			all[fact.Revision] = time.Unix(0, e.Ended).UTC()
		}
	}
	return all
}

// runsOf are the Jobs that CronJobs have made, by their owner's UID and in the order in which
// they were made, and the names of those that one has made more than once. Commits of which
// it is not known when they were made go by the apiserver's clock.
func runsOf(jobs []*batchv1.Job, log []history.Event, when map[int64]time.Time) (runs map[string][]run, twice []string) {
	runs = map[string][]run{}
	owners := map[string]string{} // by the Job's UID
	for _, e := range log {
		fact, is := e.Fact.(history.Commit)
		if !is || fact.Resource != "jobs.batch" {
			continue
		}
		at, known := when[fact.Revision]
		if !known {
			at = e.Wall
		}
		at = at.Truncate(time.Second)
		switch fact.Op {
		case "ADDED":
			if fact.Owner == "" {
				continue
			}
			if slices.ContainsFunc(runs[fact.Owner], func(r run) bool { return r.name == fact.Key }) {
				twice = append(twice, fact.Key)
			}
			owners[fact.UID] = fact.Owner
			runs[fact.Owner] = append(runs[fact.Owner], run{name: fact.Key, from: at})
		case "DELETED":
			last(runs[owners[fact.UID]], fact.Key).to = at
		}
	}
	for _, made := range jobs {
		if at := last(runs[owners[string(made.UID)]], made.Namespace+"/"+made.Name); at.from.IsZero() {
			continue
		} else {
			at.to, at.there = trueSince(made, batchv1.JobComplete, batchv1.JobFailed), true
		}
	}
	return runs, twice
}

// last is the last run of a name; another one when there is none.
func last(runs []run, called string) *run {
	for i := range slices.Backward(runs) {
		if runs[i].name == called {
			return &runs[i]
		}
	}
	return &run{}
}

// wrongActive is what is wrong with what a CronJob says of its Jobs, and with how many it keeps.
func wrongActive(its *batchv1.CronJob, mine []*batchv1.Job) string {
	var active, running []string
	var good, bad int32
	for _, ref := range its.Status.Active {
		active = append(active, string(ref.UID))
	}
	for _, made := range mine {
		if !job.IsFinished(made) {
			running = append(running, string(made.UID))
		}
		for _, condition := range made.Status.Conditions {
			if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobComplete {
				good++
			} else if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobFailed {
				bad++
			}
		}
	}
	slices.Sort(active)
	slices.Sort(running)
	switch {
	case !slices.Equal(active, running):
		return fmt.Sprintf("says that %v run, and %v do", active, running)
	case good > *its.Spec.SuccessfulJobsHistoryLimit, bad > *its.Spec.FailedJobsHistoryLimit:
		return fmt.Sprintf("keeps %d that are complete and %d that have failed", good, bad)
	}
	return ""
}

// wrongPolicy is a Job that a CronJob which allows one at a time has made while another ran, both
// of them since then.
func wrongPolicy(its *batchv1.CronJob, runs []run, since time.Time) string {
	if its.Spec.ConcurrencyPolicy == batchv1.AllowConcurrent {
		return ""
	}
	for i, next := range runs {
		for _, before := range runs[:i] {
			if !before.from.Before(since) && before.there && before.to.After(next.from) {
				return fmt.Sprintf("has made %s while %s ran, which it does not allow", next.name, before.name)
			}
		}
	}
	return ""
}

// wrongTimes is a time after since, and up to until, at which a CronJob has made a Job and should
// not have, or has not made one for no reason; empty for none.
func wrongTimes(its *batchv1.CronJob, all map[string][]run, since, until time.Time) string {
	runs, schedule := all[string(its.UID)], cronjob.NewView(its, nil).Schedule
	due := schedule.Next(since)
	for _, made := range runs {
		if at := minuteOf(made.name); made.from.After(since) && !schedule.Next(at.Add(-time.Second)).Equal(at) {
			return "has made " + made.name + ", which is due at no time"
		}
	}
	for next := due; !due.IsZero() && !due.After(until); due = next {
		next = schedule.Next(due)
		ends := until
		if next.Before(until) {
			ends = next
		}
		if limit := its.Spec.StartingDeadlineSeconds; limit != nil && due.Add(time.Duration(*limit)*time.Second).Before(ends) {
			ends = due.Add(time.Duration(*limit) * time.Second)
		}
		made := slices.ContainsFunc(runs, func(r run) bool { return minuteOf(r.name).Equal(due) }) || nameTaken(all, its, due, ends)
		if forbidden := its.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && heldBy(runs, due, ends); !made && !forbidden {
			return "has made no Job for " + due.UTC().Format(time.TimeOnly)
		}
	}
	return ""
}

// nameTaken reports whether the name of the Job of a time was another CronJob's the whole time from
// when it was due: one that was called the same, whose clock was ahead, and whose Jobs were left
// behind when it went.
func nameTaken(all map[string][]run, its *batchv1.CronJob, due, until time.Time) bool {
	for owner, runs := range all {
		if owner == string(its.UID) {
			continue
		}
		if slices.ContainsFunc(runs, func(r run) bool {
			mine := strings.HasPrefix(r.name, its.Namespace+"/"+its.Name+"-") && minuteOf(r.name).Equal(due)
			return mine && !r.from.After(due) && (r.there || !r.to.Add(time.Second).Before(until))
		}) {
			return true
		}
	}
	return false
}

// heldBy reports whether the Job of an earlier time kept another from being made the whole time
// from when it was due. It may have been made in the second after that: it was decided on before.
func heldBy(runs []run, due, until time.Time) bool {
	return slices.ContainsFunc(runs, func(r run) bool {
		return minuteOf(r.name).Before(due) && !r.from.After(due) && !r.to.Add(time.Second).Before(until)
	})
}

// minuteOf is when a Job was due, by its name; zero for one whose name does not say so.
func minuteOf(called string) time.Time {
	i := len(called)
	for i > 0 && called[i-1] >= '0' && called[i-1] <= '9' {
		i--
	}
	minutes, err := strconv.ParseInt(called[i:], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(60*minutes, 0).UTC()
}
