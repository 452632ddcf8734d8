package sim

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

const (
	cronJobName = "tick"
	// lastCronJob is how long before the end, or the end of faults, the last CronJob is created.
	lastCronJob = 3 * time.Minute
	// lastJob is how long after the end of faults the last Job is due, so that nothing changes at
	// the end.
	lastJob = 4 * time.Minute
)

// drawCronJobActions creates a CronJob in one of five runs, suspends it, deletes pods of its Jobs,
// deletes the CronJob and creates it again. In runs with faults the controllers are down at some
// times when a Job is due or the CronJob is deleted. It uses its own dice.
func drawCronJobActions(seed uint64, until time.Duration, actions []Action) (all []Action) {
	if !newDice(seed, "cronjobs", 0).oneIn(5) {
		return nil
	}
	breaks := hasFaults(actions)
	for n, at := 0, 12*time.Second; at < until-lastCronJob; n++ {
		d := newDice(seed, "cronjob", n)
		made, gone := drawCronJob(d, until), Action{At: at + d.between(6*time.Minute, 25*time.Minute), Kind: DeleteCronJob, Name: cronJobName}
		made.At, gone.Policy = at, pick(d, propagationPolicies()...)
		end := min(gone.At, until-time.Minute)
		all = append(append(all, made), drawSuspensions(d, at, end)...)
		for range d.below(4) {
			all = append(all, drawPodDeletion(d, cronJobName, at, end))
		}
		if breaks {
			all = append(all, drawOutagesWhenDue(d, at, end)...)
		}
		if at = gone.At + drawAbsence(d); gone.At < until-lastCronJob {
			all = append(all, gone)
			if breaks && d.oneIn(3) {
				all = append(all, Action{At: gone.At + d.between(-time.Second, time.Second), Kind: Crash, Name: Controllers, For: d.between(time.Second, 20*time.Second)})
			}
		}
	}
	return append(all, drawCronJobsInShop(seed, until, actions)...)
}

// drawCronJob draws a CronJob whose Jobs take less than the time to the next Job, or more.
func drawCronJob(d *dice, until time.Duration) Action {
	made := Action{Kind: CreateCronJob, Name: cronJobName, Count: 1, Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(d)}
	made.App.Code, made.App.Runs = 0, pick(d, d.between(time.Second, 30*time.Second), d.between(30*time.Second, time.Minute), d.between(time.Minute, 2*time.Minute), 2*time.Minute)
	t := JobOptions{Limit: pick(d, nil, new(int32(0))), OnFailure: d.oneIn(4)}
	if made.App.Runs < time.Minute && d.oneIn(2) {
		made.App.Fails, t.Limit = pick[int32](d, 20, 40, 70), new(pick[int32](d, 0, 1))
	} else if made.App.Runs < time.Minute {
		made.Count = int32(1 + d.below(3))
	}
	if d.oneIn(6) {
		t.TTL = new(pick[int32](d, 0, 5, 60))
	}
	if d.oneIn(6) {
		t.Deadline = new(int64(d.between(5*time.Second, 2*time.Minute) / time.Second))
	}
	last := min(int((until+lastJob)/time.Minute), 59)
	made.Shape.Job, made.Shape.CronJob = t, CronJobOptions{
		Schedule: fmt.Sprintf("0-%d/%d 0 * * *", last, pick(d, 1, 1, 1, 2, 2, 3, 5, 10)), // of the first hour
		Policy:   pick(d, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent),
		Good:     pick(d, nil, new(int32(0)), new(int32(1)), new(int32(4))), Bad: pick(d, nil, new(int32(0)), new(int32(2))),
		Late: pick(d, nil, nil, new(int64(20)), new(int64(90))),
	}
	return made
}

// drawSuspensions suspends an existing CronJob for a time, mostly not for good.
func drawSuspensions(d *dice, from, until time.Duration) (all []Action) {
	for range d.below(3) {
		held := Action{At: d.between(from, until), Kind: SuspendCronJob, Name: cronJobName}
		all = append(all, held)
		if resumed := held.At + d.between(0, 5*time.Minute); resumed < until && !d.oneIn(5) {
			all = append(all, Action{At: resumed, Kind: ResumeCronJob, Name: cronJobName})
		}
	}
	return all
}

// drawOutagesWhenDue crashes the controllers right before or right after a Job is created.
func drawOutagesWhenDue(d *dice, from, until time.Duration) (all []Action) {
	for range d.below(4) {
		due := d.between(from, until).Truncate(time.Minute) + time.Minute
		down := Action{At: due + d.between(0, 500*time.Millisecond), Kind: Crash, Name: Controllers, For: d.between(50*time.Millisecond, 90*time.Second)}
		if down.At+down.For < until {
			all = append(all, down)
		}
	}
	return all
}

// drawCronJobsInShop creates a CronJob in every other lifetime of the second namespace, some of
// them too late.
func drawCronJobsInShop(seed uint64, until time.Duration, actions []Action) (all []Action) {
	n := 0
	for _, opens := range actions {
		if opens.Kind != CreateNamespace {
			continue
		}
		d := newDice(seed, "cronjob in shop", n)
		n++
		if d.oneIn(2) {
			continue
		}
		made := drawCronJob(d, until)
		made.At, made.Name = opens.At+d.between(0, 2*time.Minute), shop+"/"+cronJobName
		all = append(all, made)
		if d.oneIn(3) {
			all = append(all, Action{At: made.At + drawAbsence(d), Kind: DeleteCronJob, Name: made.Name, Policy: pick(d, propagationPolicies()...)})
		}
	}
	return all
}
