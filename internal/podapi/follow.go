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

// Sink is what a copy is kept in. Both methods are called from one goroutine, in
// order, and must not block for long.
type Sink interface {
	// Replace puts items in the place of everything. What was there and is not in
	// items has gone, nobody knows how.
	Replace(items []kinds.Object, resourceVersion string)
	// Apply is one ADDED, MODIFIED or DELETED after the last Replace. The object
	// is shared with nobody.
	Apply(event watch.Event)
}

// Follow keeps sink a copy of what t and the selectors of opts select, until ctx ends,
// whose error it returns: list, then watch; again after a break; list once more when
// the history has gone (WCH-31). Refusals are logged and tried again as well, because
// what is forbidden now may be allowed later.
func (c *Client) Follow(ctx context.Context, t Target, opts metav1.ListOptions, sink Sink) error {
	f := &follower{client: c, target: t, options: opts, sink: sink, at: "0", dice: c.dice.of("copy of " + selected(t, opts))}
	var pause backoff
	for {
		err := f.listAndWatch(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.cfg.Log.InfoContext(ctx, "copy lists again", "what", t.String(), "at", f.at, "cause", err)
		var wait time.Duration
		wait, pause = pause.after(c.cfg.Clock.Steady(), f.dice.fraction())
		if err := c.cfg.Clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// follower is one copy: what it follows, and how far it has come.
type follower struct {
	client  *Client
	target  Target
	options metav1.ListOptions
	sink    Sink
	// at is the revision of the copy: the next list must not be older, so that
	// the copy never goes back in time; empty after an answer that it is gone.
	at string
	// dice decide how long it waits and watches.
	dice *dice
}

// selected names what t and the selectors of opts select.
func selected(t Target, opts metav1.ListOptions) string {
	return t.String() + "?" + opts.FieldSelector + "&" + opts.LabelSelector
}

// listAndWatch lists once and watches until that does not work any longer.
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
	opts.ResourceVersion, opts.AllowWatchBookmarks = f.at, false
	page, err := f.client.List(ctx, f.target, opts)
	if lost(err) {
		opts.ResourceVersion = ""
		page, err = f.client.List(ctx, f.target, opts)
	}
	if err != nil {
		return err
	}
	from, _ := strconv.ParseInt(f.at, 10, 64)
	to, _ := strconv.ParseInt(page.ResourceVersion, 10, 64)
	f.client.cfg.History.Note("", history.Copied{
		Resource: f.target.Kind.GroupResource().String(), Namespace: f.target.Namespace, From: from, To: to,
	})
	f.at = page.ResourceVersion
	f.sink.Replace(page.Items, page.ResourceVersion)
	return nil
}

// lost reports whether err says that a revision cannot be had, before or after it.
func lost(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// watch applies the events of one watch. It returns nil when the watch ended in peace.
func (f *follower) watch(ctx context.Context) error {
	opts := f.options
	lasts := int64(f.dice.between(5*time.Minute, 10*time.Minute) / time.Second)
	opts.ResourceVersion, opts.AllowWatchBookmarks, opts.TimeoutSeconds = f.at, true, &lasts
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
		f.at = obj.GetResourceVersion()
		if event.Type != watch.Bookmark {
			f.sink.Apply(event)
		}
	}
	return ctx.Err()
}
