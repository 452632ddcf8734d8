package podapi

import (
	"context"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto"
)

// Watch delivers the changes of what t and the selectors of opts select. It returns once the
// apiserver has accepted or refused the watch. A Name in t becomes the field selector
// metadata.name.
//
// The stream ends if ctx ends, if Stop is called, after opts.TimeoutSeconds (30 to 60 min if not
// set, WCH-33), or after an ERROR event: 410 if the needed history was compacted, or another
// refusal of the apiserver. Lost messages, a broken connection and a restarted apiserver do not end
// it: it resumes after the last delivered event.
//
// # Order
//
// After the initial events, which come in key order, revisions strictly increase. No change is left
// out and none is delivered twice.
//
// # Blocking
//
// A consumer that falls more than 1,000 messages behind loses its place in the live stream. The
// watch then continues from the apiserver's history.
func (c *Client) Watch(ctx context.Context, t Target, opts metav1.ListOptions) (watch.Interface, error) {
	t, opts = selectByName(t, opts)
	scope, err := proto.ScopeFor(t.Kind.GroupResource().String(), t.Namespace, &opts)
	if err != nil {
		return nil, err
	}
	opts.Watch = true
	duration := c.WatchDuration(opts.TimeoutSeconds)
	ctx, cancel := c.cfg.Clock.Timeout(ctx, duration)
	r := &reader{
		client: c, target: t, options: opts, scope: scope, rng: c.rng.derive("watch of " + selectionKey(t, opts)),
		out:      make(chan watch.Event, eventBufferSize),
		deadline: c.cfg.Clock.Steady().Add(duration),
	}
	r.cursor.Revision = startRevision(opts)
	r.delivery = delivery{watch: c.watches.Add(1), from: r.cursor.Revision}
	next, err := r.connect(ctx, opts)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watcher{events: r.out, cancel: cancel}
	w.reading.Go(func() {
		defer cancel()
		defer close(r.out)
		r.run(ctx, next)
	})
	w.reading.Go(func() { r.renewGroup(ctx) })
	return w, nil
}

// selectByName turns a target with a name into its collection with a field selector.
func selectByName(t Target, opts metav1.ListOptions) (Target, metav1.ListOptions) {
	if t.Name == "" {
		return t, opts
	}
	byName := fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name).String()
	if opts.FieldSelector != "" {
		byName += "," + opts.FieldSelector
	}
	opts.FieldSelector, t.Name = byName, ""
	return t, opts
}

const (
	// eventBufferSize is how many decoded events wait for the consumer, besides the queue of
	// messages.
	eventBufferSize = 100
	// maxQueuedMessages is how many messages may wait for a slow consumer.
	maxQueuedMessages = 1000
)

// WatchDuration returns how long a watch lasts, given its timeoutSeconds (WCH-33).
func (c *Client) WatchDuration(asked *int64) time.Duration {
	if asked != nil && *asked > 0 {
		return time.Duration(*asked) * time.Second
	}
	return c.rng.durationBetween(30*time.Minute, 60*time.Minute)
}

// startRevision returns the revision after which a watch begins; 0 if it begins with initial
// events, or now. The apiserver refuses a revision that is not a number.
func startRevision(opts metav1.ListOptions) uint64 {
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return 0
	}
	revision, err := strconv.ParseUint(opts.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// watcher is the consumer's side of a watch.
type watcher struct {
	events  <-chan watch.Event
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

// Stop ends the watch and waits for its goroutines. It may be called more than once.
func (w *watcher) Stop() {
	w.cancel()
	w.reading.Wait()
}

// ResultChan returns the channel of events. It is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }
