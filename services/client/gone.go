package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/terminal"
)

// waitGone waits for each object in turn, all of them within the plan's timeout
// (CLI-22 to CLI-25).
func (d *deletion) waitGone(ctx context.Context, sent []deleted) error {
	within, cancel := d.env.Clock.Timeout(ctx, d.plan.timeout)
	defer cancel()
	w := goneWaiter{api: d.api, clock: d.env.Clock, stderr: d.stderr}
	for _, v := range sent {
		err := w.wait(within, v.target, v.uid)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return errInterruptedWait
		case within.Err() != nil:
			return errTimedOut(v.target)
		case apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err):
			return nil // who may not look has nothing to wait for (CLI-23)
		default:
			return err
		}
	}
	return nil
}

// errTimedOut is the end of a wait that took too long (CLI-24).
func errTimedOut(t podapi.Target) error {
	return fmt.Errorf("timed out waiting for the condition on %s", resourceName(t.Kind, t.Name))
}

// goneWaiter waits until objects are gone.
type goneWaiter struct {
	api    API
	clock  clock.Clock
	stderr io.Writer
}

// relistPause is how long to wait before a broken watch is replaced.
const relistPause = time.Second

// wait returns once the object, in the incarnation uid if that is known, is gone: a GET,
// and after that lists and watches until one of them shows it (CLI-22).
func (w goneWaiter) wait(ctx context.Context, t podapi.Target, uid types.UID) error {
	obj, err := w.api.Get(ctx, t, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case uid != "" && obj.GetUID() != uid:
		return nil
	}
	for {
		gone, err := w.lookAndWatch(ctx, t, uid)
		if gone {
			return nil
		}
		if ctx.Err() != nil || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
			return errors.Join(err, ctx.Err())
		}
		if err == nil {
			continue // the server ended the watch
		}
		if err := w.clock.Sleep(ctx, relistPause); err != nil {
			return err
		}
	}
}

// lookAndWatch is one list and the watch that follows it.
func (w goneWaiter) lookAndWatch(ctx context.Context, t podapi.Target, uid types.UID) (gone bool, err error) {
	opts := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name).String()}
	all := t
	all.Name = ""
	list, err := w.api.List(ctx, all, opts)
	if err != nil {
		return false, err
	}
	if len(list.Items) == 0 || (uid != "" && list.Items[0].GetUID() != uid) {
		return true, nil
	}
	opts.ResourceVersion = list.ResourceVersion
	opts.AllowWatchBookmarks = true
	events, err := w.api.Watch(ctx, all, opts)
	if err != nil {
		return false, err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case event, open := <-events.ResultChan():
			if !open {
				return false, nil
			}
			switch event.Type {
			case watch.Deleted:
				return true, nil
			case watch.Error:
				err := apierrors.FromObject(event.Object)
				terminal.Printf(w.stderr, "error: An error occurred while waiting for the object to be deleted: %v\n", err)
				return false, err
			case watch.Added, watch.Modified:
				if other, err := meta.Accessor(event.Object); err == nil && uid != "" && other.GetUID() != uid {
					return true, nil // the name is another's now
				}
			case watch.Bookmark:
			}
		}
	}
}
