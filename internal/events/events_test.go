package events

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// fake stores events by name.
type fake map[string]*corev1.Event

func (f fake) Create(_ context.Context, target podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	event, ok := obj.(*corev1.Event)
	if !ok {
		return nil, errors.New("not an event")
	}
	f[target.Name] = event
	return event, nil
}

func (f fake) Update(_ context.Context, target podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	event, ok := obj.(*corev1.Event)
	if f[target.Name] == nil || !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, target.Name)
	}
	f[target.Name] = event
	return event, nil
}

func TestRepeatedEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := fake{}
		recorder := New(stored, Config{Component: "kubelet", Host: "n1", Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = recorder.Run(ctx) }()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
		for range 3 {
			recorder.Event(pod, corev1.EventTypeNormal, "Killing", "Stopping container c")
			time.Sleep(10 * time.Second)
		}
		recorder.Event(pod, corev1.EventTypeWarning, "FailedKillPod", "error killing pod: x")
		synctest.Wait()
		if len(stored) != 2 {
			t.Fatalf("%d events are stored, want 2: one counted three times, one new", len(stored))
		}
		for _, event := range stored {
			if event.Reason != "Killing" {
				continue
			}
			if event.Count != 3 || event.LastTimestamp.Sub(event.FirstTimestamp.Time) != 20*time.Second {
				t.Errorf("count = %d over %v, want 3 over 20s", event.Count, event.LastTimestamp.Sub(event.FirstTimestamp.Time))
			}
			if event.InvolvedObject.Kind != "Pod" || event.InvolvedObject.UID != "u" || event.Source.Host != "n1" {
				t.Errorf("event is about %+v from %+v", event.InvolvedObject, event.Source)
			}
			// Deleted by someone, it begins anew.
			clear(stored)
			break
		}
		recorder.Event(pod, corev1.EventTypeNormal, "Killing", "Stopping container c")
		synctest.Wait()
		for _, event := range stored {
			if event.Count != 1 {
				t.Errorf("count = %d after the event was deleted, want 1", event.Count)
			}
		}
		if len(stored) != 1 {
			t.Errorf("%d events are stored, want 1", len(stored))
		}
		cancel()
		<-ended
	})
}

func TestEventNeverWaits(t *testing.T) {
	recorder := New(fake{}, Config{})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	for range Queue + 10 { // nobody stores them
		recorder.Event(pod, corev1.EventTypeNormal, "Killing", "x")
	}
	if got := len(recorder.queue); got != Queue {
		t.Errorf("%d events wait, want %d", got, Queue)
	}
}
