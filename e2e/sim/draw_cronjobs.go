package sim

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

const (
	// cronJobName is that of a CronJob.
	cronJobName = "tick"
	// lastCronJob is how long before the end, or the calm, the last of them is made.
	lastCronJob = 3 * time.Minute
	// lastJob is how long after the calm the last Job is due, so that the end is quiet.
	lastJob = 4 * time.Minute
)

// cronJobDeeds make a CronJob in a life of five, hold it up, take pods from its Jobs, delete it and
// make it again; where anything breaks, the controllers are down now and then when a Job is due, or
// when it goes. It draws from dice of its own.
func cronJobDeeds(seed uint64, until time.Duration, deeds []Deed) (all []Deed) {
	if !diceOf(seed, "cronjobs", 0).one(5) {
		return nil
	}
	breaks := troubled(deeds)
	for n, at := 0, 12*time.Second; at < until-lastCronJob; n++ {
		d := diceOf(seed, "cronjob", n)
		made, gone := ticking(d, until), Deed{At: at + d.between(6*time.Minute, 25*time.Minute), Do: DeleteCronJob, Name: cronJobName}
		made.At, gone.Policy = at, pick(d, policies()...)
		end := min(gone.At, until-time.Minute)
		all = append(append(all, made), heldUp(d, at, end)...)
		for range d.below(4) {
			all = append(all, taken(d, cronJobName, at, end))
		}
		if breaks {
			all = append(all, downWhenDue(d, at, end)...)
		}
		if at = gone.At + whileAway(d); gone.At < until-lastCronJob {
			all = append(all, gone)
			if breaks && d.one(3) {
				all = append(all, Deed{At: gone.At + d.between(-time.Second, time.Second), Do: Crash, Name: Controllers, For: d.between(time.Second, 20*time.Second)})
			}
		}
	}
	return append(all, cronJobsInShop(seed, until, deeds)...)
}

// ticking is a CronJob whose Jobs take less than the time to the next, or more.
func ticking(d *dice, until time.Duration) Deed {
	made := Deed{Do: CreateCronJob, Name: cronJobName, Count: 1, Grace: grace(d), App: app(d), Shape: setShape(d)}
	made.App.Code, made.App.Runs = 0, pick(d, d.between(time.Second, 30*time.Second), d.between(30*time.Second, time.Minute), d.between(time.Minute, 2*time.Minute), 2*time.Minute)
	t := Task{Limit: pick(d, nil, new(int32(0))), OnFailure: d.one(4)}
	if made.App.Runs < time.Minute && d.one(2) {
		made.App.Fails, t.Limit = pick[int32](d, 20, 40, 70), new(pick[int32](d, 0, 1))
	} else if made.App.Runs < time.Minute {
		made.Count = int32(1 + d.below(3))
	}
	if d.one(6) {
		t.TTL = new(pick[int32](d, 0, 5, 60))
	}
	if d.one(6) {
		t.Deadline = new(int64(d.between(5*time.Second, 2*time.Minute) / time.Second))
	}
	last := min(int((until+lastJob)/time.Minute), 59)
	made.Shape.Task, made.Shape.Times = t, Times{
		Schedule: fmt.Sprintf("0-%d/%d 0 * * *", last, pick(d, 1, 1, 1, 2, 2, 3, 5, 10)), // of the first hour
		Policy:   pick(d, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent),
		Good:     pick(d, nil, new(int32(0)), new(int32(1)), new(int32(4))), Bad: pick(d, nil, new(int32(0)), new(int32(2))),
		Late: pick(d, nil, nil, new(int64(20)), new(int64(90))),
	}
	return made
}

// heldUp suspend a CronJob that is there for a time, mostly not for good.
func heldUp(d *dice, from, until time.Duration) (all []Deed) {
	for range d.below(3) {
		held := Deed{At: d.between(from, until), Do: SuspendCronJob, Name: cronJobName}
		all = append(all, held)
		if resumed := held.At + d.between(0, 5*time.Minute); resumed < until && !d.one(5) {
			all = append(all, Deed{At: resumed, Do: ResumeCronJob, Name: cronJobName})
		}
	}
	return all
}

// downWhenDue have the controllers go down right before a Job is made, or right after.
func downWhenDue(d *dice, from, until time.Duration) (all []Deed) {
	for range d.below(4) {
		due := d.between(from, until).Truncate(time.Minute) + time.Minute
		down := Deed{At: due + d.between(0, 500*time.Millisecond), Do: Crash, Name: Controllers, For: d.between(50*time.Millisecond, 90*time.Second)}
		if down.At+down.For < until {
			all = append(all, down)
		}
	}
	return all
}

// cronJobsInShop make a CronJob in every other time of the second namespace, some of them too late.
func cronJobsInShop(seed uint64, until time.Duration, deeds []Deed) (all []Deed) {
	n := 0
	for _, opens := range deeds {
		if opens.Do != CreateNamespace {
			continue
		}
		d := diceOf(seed, "cronjob in shop", n)
		n++
		if d.one(2) {
			continue
		}
		made := ticking(d, until)
		made.At, made.Name = opens.At+d.between(0, 2*time.Minute), shop+"/"+cronJobName
		all = append(all, made)
		if d.one(3) {
			all = append(all, Deed{At: made.At + whileAway(d), Do: DeleteCronJob, Name: made.Name, Policy: pick(d, policies()...)})
		}
	}
	return all
}
