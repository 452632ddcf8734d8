// Package events records Events about API objects for users. Equal events about one object become
// one Event with a count.
//
// # Blocking
//
// No component waits for an event, and under load events are the first thing to be dropped. As in
// upstream, a component has a rate limit and a bounded queue, and drops the rest.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// API is the part of the apiserver's client that a recorder needs.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error)
	Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error)
}

// RateLimit limits sent events: PerSecond on average, Burst at once; 0 sends none.
type RateLimit struct{ PerSecond, Burst int }

// Config configures a Recorder.
type Config struct {
	API       API
	Clock     clock.Clock
	RateLimit RateLimit
	// Component is the reporting component: "kubelet", "default-scheduler". Host is its node, if
	// relevant.
	Component, Host string
	Log             *slog.Logger
}

// DefaultRateLimit returns upstream's limits.
func DefaultRateLimit() RateLimit { return RateLimit{PerSecond: 50, Burst: 100} }

const (
	queueLimit = 1000
	knownLimit = 4096
)

// Recorder queues events and sends them.
type Recorder struct {
	cfg  Config
	kind kinds.Kind

	mu       sync.Mutex
	known    map[key]*pendingEvent
	order    []key // oldest first
	queue    []key
	lastName int64 // number in the last name, so that names differ
	wake     chan struct{}
}

// key is equal for equal events.
type key struct {
	uid                          types.UID
	field, kind, reason, message string
}

type pendingEvent struct {
	event   *corev1.Event
	created bool
	queued  bool
}

// New returns a recorder; it sends nothing until Run.
func New(cfg Config) *Recorder {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	kind, _ := kinds.ByResource("events")
	return &Recorder{cfg: cfg, kind: kind, known: map[key]*pendingEvent{}, wake: make(chan struct{}, 1)}
}

// Event records an event about an object. The kind is Normal or Warning, reason a CamelCase word
// for programs, message a sentence for users.
func (r *Recorder) Event(object kinds.Object, kind, reason, message string) {
	r.record(object, "", corev1.Event{Type: kind, Reason: reason, Message: message})
}

// ContainerEvent records an event about one container of a pod.
func (r *Recorder) ContainerEvent(pod *corev1.Pod, container, kind, reason, message string) {
	field := "spec.containers{" + container + "}"
	for _, c := range pod.Spec.InitContainers {
		if c.Name == container {
			field = "spec.initContainers{" + container + "}"
		}
	}
	r.record(pod, field, corev1.Event{Type: kind, Reason: reason, Message: message})
}

func (r *Recorder) record(object kinds.Object, field string, template corev1.Event) {
	gvk, err := kinds.GVK(object)
	if err != nil {
		return // the kind has no events
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.Time{Time: r.cfg.Clock.Now().Truncate(time.Second)}
	k := key{object.GetUID(), field, template.Type, template.Reason, template.Message}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.known[k]; known != nil {
		known.event.Count++
		known.event.LastTimestamp = now
		r.enqueue(k, known)
		return
	}
	r.lastName = max(r.lastName+1, r.cfg.Clock.Now().UnixNano())
	event := &template
	event.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", object.GetName(), r.lastName)}
	event.InvolvedObject = corev1.ObjectReference{
		Kind: gvk.Kind, APIVersion: gvk.GroupVersion().String(), Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(), FieldPath: field,
	}
	event.Source = corev1.EventSource{Component: r.cfg.Component, Host: r.cfg.Host}
	event.ReportingController, event.ReportingInstance = r.cfg.Component, r.cfg.Host
	event.FirstTimestamp, event.LastTimestamp, event.Count = now, now, 1
	known := &pendingEvent{event: event}
	r.known[k] = known
	r.order = append(r.order, k)
	if len(r.order) > knownLimit {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	r.enqueue(k, known)
}

func (r *Recorder) enqueue(k key, known *pendingEvent) {
	if known.queued || len(r.queue) >= queueLimit {
		return
	}
	known.queued = true
	r.queue = append(r.queue, k)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run sends events until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	if r.cfg.RateLimit.PerSecond <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	pause := time.Second / time.Duration(r.cfg.RateLimit.PerSecond)
	tokens, filled := r.cfg.RateLimit.Burst, r.cfg.Clock.Steady()
	for {
		if gained := int(r.cfg.Clock.Steady().Sub(filled) / pause); gained > 0 {
			tokens = min(tokens+gained, r.cfg.RateLimit.Burst)
			filled = filled.Add(time.Duration(gained) * pause)
		}
		event, send := r.next()
		if event == nil {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-r.wake:
			}
			continue
		}
		if tokens == 0 {
			if err := r.cfg.Clock.Sleep(ctx, pause); err != nil {
				return err
			}
			tokens, filled = 1, r.cfg.Clock.Steady()
		}
		tokens--
		if err := send(ctx, event); err != nil && ctx.Err() == nil {
			r.cfg.Log.WarnContext(ctx, "an event was not accepted", "reason", event.Reason, "about", event.InvolvedObject.Name, "error", err)
		}
	}
}

// next takes the oldest queued event and returns it with the function that sends it.
func (r *Recorder) next() (*corev1.Event, func(context.Context, *corev1.Event) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		known := r.known[r.queue[0]]
		r.queue = r.queue[1:]
		if known == nil {
			continue
		}
		send := r.create
		if known.created {
			send = r.updateCount
		}
		known.queued, known.created = false, true
		return known.event.DeepCopy(), send
	}
	return nil, nil
}

// updateCount updates the count of an Event that exists already.
func (r *Recorder) updateCount(ctx context.Context, event *corev1.Event) error {
	target := podapi.Target{Kind: r.kind, Namespace: event.Namespace, Name: event.Name}
	patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, event.Count, event.LastTimestamp.UTC().Format(time.RFC3339))
	_, err := r.cfg.API.Patch(ctx, target, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return r.create(ctx, event) // the Event has expired: create a new one
	}
	return err
}

// create creates a new Event. Two components can choose the same name at the same instant; then the
// later one chooses another.
func (r *Recorder) create(ctx context.Context, event *corev1.Event) error {
	target := podapi.Target{Kind: r.kind, Namespace: event.Namespace}
	_, err := r.cfg.API.Create(ctx, target, event, metav1.CreateOptions{})
	for tries := 0; apierrors.IsAlreadyExists(err) && tries < 10; tries++ {
		event.Name = r.renameEvent(event)
		_, err = r.cfg.API.Create(ctx, target, event, metav1.CreateOptions{})
	}
	return err
}

// renameEvent gives an event a name that this recorder has not used.
func (r *Recorder) renameEvent(event *corev1.Event) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastName++
	name := fmt.Sprintf("%s.%x", event.InvolvedObject.Name, r.lastName)
	for _, known := range r.known {
		if known.event.Name == event.Name && known.event.InvolvedObject.UID == event.InvolvedObject.UID {
			known.event.Name = name
		}
	}
	return name
}
