package sim

import (
	"fmt"
	"slices"
	"strconv"
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
	runs, twice := runsOf(jobs, log)
	for _, what := range twice {
		wrong = append(wrong, fmt.Errorf("%w: job %s was made twice", ErrReplicas, what))
	}
	for _, its := range objectsOf[*batchv1.CronJob](snapshot, cronJobsResource) {
		mine := slices.DeleteFunc(slices.Clone(jobs), func(made *batchv1.Job) bool { return !metav1.IsControlledBy(made, its) })
		since := c.start.Add(c.script.Calm + settled)
		if its.CreationTimestamp.After(since) {
			since = its.CreationTimestamp.Time
		}
		what := wrongActive(its, mine)
		if what == "" {
			what = wrongPolicy(its, runs[string(its.UID)], since)
		}
		if what == "" && !*its.Spec.Suspend {
			what = wrongTimes(its, runs[string(its.UID)], since, c.now.Add(-calmFor))
		}
		if what != "" {
			wrong = append(wrong, fmt.Errorf("%w: cronjob %s %s; its runs are %v, and its status is %+v", ErrReplicas, its.Name, what, runs[string(its.UID)], its.Status))
		}
	}
	return wrong
}

// runsOf are the Jobs that CronJobs have made, by their owner's UID and in the order in which
// they were made, and the names of those that one has made more than once.
func runsOf(jobs []*batchv1.Job, log []history.Event) (runs map[string][]run, twice []string) {
	runs = map[string][]run{}
	owners := map[string]string{} // by the Job's UID
	for _, e := range log {
		fact, is := e.Fact.(history.Commit)
		if !is || fact.Resource != "jobs.batch" {
			continue
		}
		at := e.Wall.Truncate(time.Second)
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
			at.to, at.there = overAt(made), true
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

// overAt is when a Job was over; zero when it is not.
func overAt(its *batchv1.Job) time.Time {
	for _, condition := range its.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// wrongActive is what is wrong with what a CronJob says of its Jobs, and with how many it keeps.
func wrongActive(its *batchv1.CronJob, mine []*batchv1.Job) string {
	var active, running []string
	var good, bad int32
	for _, ref := range its.Status.Active {
		active = append(active, string(ref.UID))
	}
	for _, made := range mine {
		if !job.Over(made) {
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
func wrongTimes(its *batchv1.CronJob, runs []run, since, until time.Time) string {
	schedule := cronjob.ViewOf(its, nil).Schedule
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
		made := slices.ContainsFunc(runs, func(r run) bool { return minuteOf(r.name).Equal(due) })
		if forbidden := its.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && heldBy(runs, due, ends); !made && !forbidden {
			return "has made no Job for " + due.UTC().Format(time.TimeOnly)
		}
	}
	return ""
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
