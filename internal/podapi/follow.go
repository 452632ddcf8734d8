package podapi

import (
	"context"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
)

// Sink stores a copy. Its methods are called from one goroutine, in order, and must not block for
// long.
type Sink interface {
	// Replace replaces the whole copy by items. Objects that are missing from items were deleted;
	// their last state is unknown.
	Replace(items []kinds.Object, resourceVersion string)
	// Apply applies one ADDED, MODIFIED or DELETED event after the last Replace. Nothing else
	// refers to the object.
	Apply(event watch.Event)
}

// Follow keeps in sink a copy of what t and the selectors of opts select, until ctx ends, and
// returns the context's error. It lists, watches, watches again after a break, and lists again if
// the history was compacted (WCH-31). Refusals are logged and retried as well, because permissions
// may change.
func (c *Client) Follow(ctx context.Context, t Target, opts metav1.ListOptions, sink Sink) error {
	f := &follower{client: c, target: t, options: opts, sink: sink, revision: "0", rng: c.rng.derive("copy of " + selectionKey(t, opts))}
	var pause backoff
	for {
		err := f.listAndWatch(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.cfg.Log.InfoContext(ctx, "copy lists again", "what", t.String(), "at", f.revision, "cause", err)
		var wait time.Duration
		wait, pause = pause.advance(c.cfg.Clock.Steady(), f.rng.fraction())
		if err := c.cfg.Clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// follower is the state of one copy.
type follower struct {
	client  *Client
	target  Target
	options metav1.ListOptions
	sink    Sink
	// revision is the revision of the copy. The next list must not be older, so that the copy never
	// goes back in time. It is empty after an answer that the revision is gone.
	revision string
	// rng decides how long the follower waits and watches.
	rng *rng
}

// selectionKey names what t and the selectors of opts select.
func selectionKey(t Target, opts metav1.ListOptions) string {
	return t.String() + "?" + opts.FieldSelector + "&" + opts.LabelSelector
}

// listAndWatch lists once and watches until a watch fails.
func (f *follower) listAndWatch(ctx context.Context) error {
	if err := f.list(ctx); err != nil {
		return err
	}
	for {
		if err := f.watch(ctx); err != nil {
			return err
		}
	}
}

func (f *follower) list(ctx context.Context) error {
	opts := f.options
	opts.ResourceVersion, opts.AllowWatchBookmarks = f.revision, false
	page, err := f.client.List(ctx, f.target, opts)
	if isRevisionUnavailable(err) {
		opts.ResourceVersion = ""
		page, err = f.client.List(ctx, f.target, opts)
	}
	if err != nil {
		return err
	}
	from, _ := strconv.ParseInt(f.revision, 10, 64)
	to, _ := strconv.ParseInt(page.ResourceVersion, 10, 64)
	f.client.cfg.History.Record("", history.Relist{
		Resource: f.target.Kind.GroupResource().String(), Namespace: f.target.Namespace, From: from, To: to,
	})
	f.revision = page.ResourceVersion
	f.sink.Replace(page.Items, page.ResourceVersion)
	return nil
}

// isRevisionUnavailable reports whether err means that a revision is compacted or not yet reached.
func isRevisionUnavailable(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// watch applies the events of one watch. It returns nil if the watch ended normally.
func (f *follower) watch(ctx context.Context) error {
	opts := f.options
	duration := int64(f.rng.durationBetween(5*time.Minute, 10*time.Minute) / time.Second)
	opts.ResourceVersion, opts.AllowWatchBookmarks, opts.TimeoutSeconds = f.revision, true, &duration
	stream, err := f.client.Watch(ctx, f.target, opts)
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		obj, ok := event.Object.(kinds.Object)
		if !ok {
			return errNoObject
		}
		f.revision = obj.GetResourceVersion()
		if event.Type != watch.Bookmark {
			f.sink.Apply(event)
		}
	}
	return ctx.Err()
}
