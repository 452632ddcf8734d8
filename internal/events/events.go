// Package events writes core/v1 Events about objects, as client-go's recorder does: a
// repeated event is counted, not written again.
//
// # Blocking
//
// Event never waits. When more than [Queue] events wait to be stored the newest is
// dropped and logged: what is told about a cluster must not hold the cluster up.
package events

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

const (
	// Queue is how many events may wait.
	Queue = 1000
	// remembered is how many distinct events are known well enough to count.
	remembered = 4096
)

// API is what a Recorder needs of the cluster.
type API interface {
	Create(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.CreateOptions) (kinds.Object, error)
	Update(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.UpdateOptions) (kinds.Object, error)
}

// Config says who speaks.
type Config struct {
	// Component is the event's source: "kubelet", "default-scheduler".
	Component string
	// Host is the node that it runs on, if that matters.
	Host  string
	Clock clock.Clock
	Log   *slog.Logger
}

// Recorder writes the events of one component.
type Recorder struct {
	api   API
	cfg   Config
	queue chan *corev1.Event
	known map[key]*corev1.Event
	order []key // of known, the oldest first
}

// key is what makes two events the same.
type key struct {
	uid                   types.UID
	kind, reason, message string
}

// New is a Recorder that stores nothing until Run.
func New(api API, cfg Config) *Recorder {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{api: api, cfg: cfg, queue: make(chan *corev1.Event, Queue), known: map[key]*corev1.Event{}}
}

// Event says something about an object: eventType is Normal or Warning, reason one word
// for machines, message a sentence for people.
func (r *Recorder) Event(about kinds.Object, eventType, reason, message string) {
	gvk, err := kinds.GVK(about)
	if err != nil {
		r.cfg.Log.Error("an event about an unknown kind was dropped", "reason", reason, "error", err) //nolint:sloglint // no context: Event never waits
		return
	}
	now := r.cfg.Clock.Now()
	namespace := about.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.GetName(), now.UnixNano()),
		},
		InvolvedObject: corev1.ObjectReference{
			Kind: gvk.Kind, APIVersion: gvk.GroupVersion().String(), Namespace: about.GetNamespace(),
			Name: about.GetName(), UID: about.GetUID(), ResourceVersion: about.GetResourceVersion(),
		},
		Type: eventType, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: r.cfg.Component, Host: r.cfg.Host},
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Count: 1,
		ReportingController: r.cfg.Component, ReportingInstance: r.cfg.Host,
	}
	select {
	case r.queue <- event:
	default:
		r.cfg.Log.Warn("an event was dropped", "reason", reason, "about", about.GetName()) //nolint:sloglint // as above
	}
}

// Run stores events until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	kind, _ := kinds.ByResource("events")
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-r.queue:
			if err := r.store(ctx, kind, event); err != nil && ctx.Err() == nil {
				r.cfg.Log.WarnContext(ctx, "an event could not be stored", "reason", event.Reason, "error", err)
			}
		}
	}
}

// store writes a new event, or counts a known one.
func (r *Recorder) store(ctx context.Context, kind kinds.Kind, event *corev1.Event) error {
	k := key{event.InvolvedObject.UID, event.Type, event.Reason, event.Message}
	target := podapi.Target{Kind: kind, Namespace: event.Namespace, Name: event.Name}
	if known := r.known[k]; known != nil {
		again := known.DeepCopy()
		again.Count++
		again.LastTimestamp = event.LastTimestamp
		again.ResourceVersion = ""
		target.Name = again.Name
		stored, err := r.api.Update(ctx, target, again, metav1.UpdateOptions{})
		if err == nil {
			return r.remember(k, stored)
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		target.Name = event.Name // the known one has been deleted: begin again
	}
	stored, err := r.api.Create(ctx, target, event, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return r.remember(k, stored)
}

func (r *Recorder) remember(k key, stored kinds.Object) error {
	event, ok := stored.(*corev1.Event)
	if !ok {
		return fmt.Errorf("event %s came back as %T", stored.GetName(), stored)
	}
	if r.known[k] == nil {
		r.order = append(r.order, k)
	}
	r.known[k] = event
	if len(r.order) > remembered {
		delete(r.known, r.order[0])
		r.order = r.order[1:]
	}
	return nil
}
