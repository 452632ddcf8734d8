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

// cronJobsRightAfter is how long after the end of faults CronJobs have converged.
const cronJobsRightAfter = time.Minute

// jobRun is a Job of a CronJob. It existed between the two times, as far as is known. If it exists
// at the end, the second time is when the Job was complete. Times are whole seconds.
type jobRun struct {
	name     string
	from, to time.Time
	exists   bool
}

// checkCronJobs checks that no Job was created twice. Every CronJob must name the Jobs that run,
// keep no more Jobs than allowed, and have created a Job at each time since the end of faults at
// which one was due, and no other.
func (c *cluster) checkCronJobs(snapshot *store.Snapshot, log []history.Event) (wrong []error) {
	jobs := objectsOf[*batchv1.Job](snapshot, "jobs.batch")
	runs, twice := jobRuns(jobs, log, c.commitTimes())
	for _, what := range twice {
		wrong = append(wrong, fmt.Errorf("%w: job %s was made twice", ErrCronJobs, what))
	}
	for _, its := range objectsOf[*batchv1.CronJob](snapshot, cronJobsResource) {
		mine := slices.DeleteFunc(slices.Clone(jobs), func(made *batchv1.Job) bool { return !metav1.IsControlledBy(made, its) })
		since := c.start.Add(c.script.FaultsEnd + cronJobsRightAfter)
		if its.CreationTimestamp.After(since) {
			since = its.CreationTimestamp.Time
		}
		looked := afterEarlyJobs(runs[string(its.UID)], c.lastSyncAfter(its, since))
		what := activeProblem(its, mine)
		if what == "" {
			what = policyProblem(its, runs[string(its.UID)], since)
		}
		if what == "" && !*its.Spec.Suspend {
			what = scheduleProblem(its, runs, looked, c.now.Add(-noChangesFor))
		}
		if what != "" {
			wrong = append(wrong, fmt.Errorf("%w: cronjob %s %s; its runs are %v, and its status is %s", ErrCronJobs, its.Name, what, runs[string(its.UID)], formatStatus(its.Status)))
		}
	}
	return wrong
}

// lastSyncAfter returns when the controllers looked at a CronJob whose spec holds since that time.
// The controllers wait for the next time by their clock. If that clock was skewed, they look again
// when something about the CronJob has changed; at the end of the run if nothing has.
func (c *cluster) lastSyncAfter(its *batchv1.CronJob, since time.Time) time.Time {
	var wrong time.Duration
	for _, action := range c.script.Actions {
		if action.Kind == SkewClock && action.Name == Controllers {
			wrong = max(wrong, action.At+action.For)
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

// afterEarlyJobs returns since, or the time of the last Job that was created early by a clock that
// was ahead. As upstream, its CronJob creates no Job for an earlier time.
func afterEarlyJobs(runs []jobRun, since time.Time) time.Time {
	for _, r := range runs {
		if due := dueTime(r.name); due.After(r.from) {
			since = latestOf(since, due)
		}
	}
	return since
}

// commitTimes returns when revisions were committed, on the simulated time, for those whose record
// the apiserver wrote before it crashed.
func (c *cluster) commitTimes() map[int64]time.Time {
	all := map[int64]time.Time{}
	for _, e := range c.record.events {
		if fact, is := e.Fact.(history.Commit); is {
			all[fact.Revision] = time.Unix(0, e.Ended).UTC()
		}
	}
	return all
}

// jobRuns returns the Jobs that CronJobs have created, by the UID of their owner in order of
// creation, and the names of Jobs that were created more than once. A commit of unknown time counts
// by the apiserver's clock.
func jobRuns(jobs []*batchv1.Job, log []history.Event, when map[int64]time.Time) (runs map[string][]jobRun, twice []string) {
	runs = map[string][]jobRun{}
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
			if slices.ContainsFunc(runs[fact.Owner], func(r jobRun) bool { return r.name == fact.Key }) {
				twice = append(twice, fact.Key)
			}
			owners[fact.UID] = fact.Owner
			runs[fact.Owner] = append(runs[fact.Owner], jobRun{name: fact.Key, from: at})
		case "DELETED":
			lastRunNamed(runs[owners[fact.UID]], fact.Key).to = at
		}
	}
	for _, made := range jobs {
		if at := lastRunNamed(runs[owners[string(made.UID)]], made.Namespace+"/"+made.Name); at.from.IsZero() {
			continue
		} else {
			at.to, at.exists = trueSince(made, batchv1.JobComplete, batchv1.JobFailed), true
		}
	}
	return runs, twice
}

// lastRunNamed returns the last run of a name; a new one if there is none.
func lastRunNamed(runs []jobRun, called string) *jobRun {
	for i := range slices.Backward(runs) {
		if runs[i].name == called {
			return &runs[i]
		}
	}
	return &jobRun{}
}

// activeProblem describes what is wrong with the Jobs that a CronJob lists as active, and with how
// many it keeps.
func activeProblem(its *batchv1.CronJob, mine []*batchv1.Job) string {
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

// policyProblem describes a Job that a CronJob which allows one at a time created while another
// ran, both after since.
func policyProblem(its *batchv1.CronJob, runs []jobRun, since time.Time) string {
	if its.Spec.ConcurrencyPolicy == batchv1.AllowConcurrent {
		return ""
	}
	for i, next := range runs {
		for _, before := range runs[:i] {
			if !before.from.Before(since) && before.exists && before.to.After(next.from) {
				return fmt.Sprintf("has made %s while %s ran, which it does not allow", next.name, before.name)
			}
		}
	}
	return ""
}

// scheduleProblem describes a time after since, up to until, at which a CronJob should not have
// created a Job, or created none without a reason; empty for none.
func scheduleProblem(its *batchv1.CronJob, all map[string][]jobRun, since, until time.Time) string {
	runs, schedule := all[string(its.UID)], cronjob.NewView(its, nil).Schedule
	due := schedule.Next(since)
	for _, made := range runs {
		if at := dueTime(made.name); made.from.After(since) && !schedule.Next(at.Add(-time.Second)).Equal(at) {
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
		made := slices.ContainsFunc(runs, func(r jobRun) bool { return dueTime(r.name).Equal(due) }) || nameTaken(all, its, due, ends)
		if forbidden := its.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && heldBy(runs, due, ends); !made && !forbidden {
			return "has made no Job for " + due.UTC().Format(time.TimeOnly)
		}
	}
	return ""
}

// nameTaken reports whether the name of the Job was taken from its due time until the end of the
// window. The name belonged to a CronJob of the same name whose clock was ahead, and whose Jobs
// were left behind by its deletion.
func nameTaken(all map[string][]jobRun, its *batchv1.CronJob, due, until time.Time) bool {
	for owner, runs := range all {
		if owner == string(its.UID) {
			continue
		}
		if slices.ContainsFunc(runs, func(r jobRun) bool {
			mine := strings.HasPrefix(r.name, its.Namespace+"/"+its.Name+"-") && dueTime(r.name).Equal(due)
			return mine && !r.from.After(due) && (r.exists || !r.to.Add(time.Second).Before(until))
		}) {
			return true
		}
	}
	return false
}

// heldBy reports whether the Job of an earlier time kept another from being created from its due
// time until the end of the window. The earlier Job may be created up to a second later, because it
// was decided before.
func heldBy(runs []jobRun, due, until time.Time) bool {
	return slices.ContainsFunc(runs, func(r jobRun) bool {
		return dueTime(r.name).Before(due) && !r.from.After(due) && !r.to.Add(time.Second).Before(until)
	})
}

// dueTime returns when a Job was due, by its name; zero for other names.
func dueTime(called string) time.Time {
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
