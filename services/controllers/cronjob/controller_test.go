package cronjob

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
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

	// making is called while a Job is made.
	making        func()
	made, refused int
}

func (f *fakeAPI) Create(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	f.made++
	f.making()
	obj.SetUID("made")
	return obj, nil
}

func (f *fakeAPI) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	return nil, apierrors.NewNotFound(batchv1.Resource("jobs"), target.Name)
}

func (f *fakeAPI) Update(_ context.Context, target podapi.Target, _ kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	f.refused++
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
		api := &fakeAPI{making: func() {}}
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

// TestGoneMeanwhile has a CronJob go while its Job is made: nothing is remembered of it.
func TestGoneMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{}
		c, its := due(api)
		api.making = func() { c.cronJobs.Apply(watch.Event{Type: watch.Deleted, Object: its}) }
		for range 2 { // the second time since it has failed, and gone
			_ = c.sync(t.Context(), view.KeyOf(its))
		}
		if len(c.memory.last) > 0 {
			t.Errorf("%v is remembered for ever", c.memory.last)
		}
	})
}
