package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// TestCronJob makes a Job a minute, on the minute, keeps three, and is not late after the
// controllers were down.
func TestCronJob(t *testing.T) {
	runInBubble(t, stage.Config{Nodes: 1, Controllers: append(workloadControllers(), "garbagecollector")}, func(r *rig) {
		tick := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "tick"}}
		tick.Spec.Schedule = "* * * * *"
		tick.Spec.JobTemplate.Spec = job("", "exits 0 after 5s", 1, 1).Spec
		r.create("cronjobs.batch", tick)
		r.waitUntil("the first Job", func() bool { return len(list[*batchv1.Job](r, "jobs.batch")) == 1 })
		made := list[*batchv1.Job](r, "jobs.batch")[0].CreationTimestamp
		if made.Second() != 0 {
			r.t.Errorf("made at %v, want on the minute", made)
		}
		time.Sleep(6 * time.Minute)
		if jobs := list[*batchv1.Job](r, "jobs.batch"); len(jobs) != 3 && len(jobs) != 4 {
			r.t.Errorf("%d Jobs are kept, want 3 and the one that runs", len(jobs))
		}
		r.cluster.Stop("controllers")
		time.Sleep(10 * time.Minute)
		before := len(r.eventTexts("tick"))
		r.cluster.Start("controllers")
		time.Sleep(10 * time.Second)
		created := 0
		for _, said := range r.eventTexts("tick")[before:] {
			if len(said) > 16 && said[:16] == "SuccessfulCreate" {
				created++
			}
		}
		if created != 1 {
			r.t.Errorf("%d Jobs after ten minutes away, want the latest only", created)
		}
	})
}
