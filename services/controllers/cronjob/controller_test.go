package cronjob

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// fakeAPI counts the Jobs that are made, which are gone at once, and takes no status.
type fakeAPI struct {
	control.API

	// making is called while a Job is made; what it returns is why there is none.
	making        func() error
	made, refused int
	// said is the status that was to be stored last.
	said batchv1.CronJobStatus
}

func (f *fakeAPI) Create(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	f.made++
	if err := f.making(); err != nil {
		return nil, err
	}
	obj.SetUID("made")
	return obj, nil
}

func (f *fakeAPI) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	return nil, apierrors.NewNotFound(batchv1.Resource("jobs"), target.Name)
}

func (f *fakeAPI) Update(_ context.Context, target podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	f.refused++
	if its, is := obj.(*batchv1.CronJob); is {
		f.said = its.Status
	}
	return nil, apierrors.NewConflict(batchv1.Resource("cronjobs"), target.Name, nil)
}

// Event implements control.Recorder.
func (f *fakeAPI) Event(kinds.Object, string, string, string) {}

// due is a controller that nothing runs, of one CronJob whose time it is: midnight, in a bubble.
func due(api *fakeAPI) (*Controller, *batchv1.CronJob) {
	c := New(control.Base{
		API: api, Views: view.NewSet(nil, nil), Log: slog.New(slog.DiscardHandler), Events: func(string) control.Recorder { return api },
	})
	its := tick()
	its.UID, its.CreationTimestamp = "tick", metav1.NewTime(time.Now().Add(-time.Minute))
	c.cronJobs.Apply(watch.Event{Type: watch.Added, Object: its})
	return c, its
}

// TestMadeOnce has the API not take what a CronJob is to say of its Job, which is gone then: it is
// not made again, and the status is still to be stored.
func TestMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{making: func() error { return nil }}
		c, its := due(api)
		for range 2 {
			if err := c.sync(t.Context(), view.KeyOf(its)); !apierrors.IsConflict(err) {
				t.Errorf("a status that was refused: %v", err)
			}
		}
		if api.made != 1 || api.refused != 2 {
			t.Errorf("%d Jobs were made, and %d times the status was to be stored, want 1 and 2", api.made, api.refused)
		}
	})
}

// TestNotMade has the next Job be refused: the CronJob says all the same that the one before is gone,
// and not that it was made.
func TestNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := apierrors.NewForbidden(batchv1.Resource("jobs"), "tick", nil)
		api := &fakeAPI{making: func() error { return refusal }}
		c, its := due(api)
		its.Status.Active = []corev1.ObjectReference{{Kind: "Job", Namespace: its.Namespace, Name: "tick-1", UID: "gone"}}
		if err := c.sync(t.Context(), view.KeyOf(its)); !errors.Is(err, refusal) {
			t.Errorf("a Job that was refused: %v", err)
		}
		if api.refused != 1 || api.said.Active != nil || api.said.LastScheduleTime != nil {
			t.Errorf("%d times a status was to be stored, the last %+v, want one without active Jobs and lastScheduleTime", api.refused, api.said)
		}
	})
}

// TestGoneMeanwhile has a CronJob go while its Job is made: nothing is remembered of it.
func TestGoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		c, its := due(api)
		api.making = func() error { c.cronJobs.Apply(watch.Event{Type: watch.Deleted, Object: its}); return nil }
		for range 2 { // the second time since it has failed, and gone
			_ = c.sync(t.Context(), view.KeyOf(its))
		}
		if len(c.memory.last) > 0 {
			t.Errorf("%v is remembered for ever", c.memory.last)
		}
	})
}
