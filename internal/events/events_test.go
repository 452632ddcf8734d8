package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

type counter struct {
	mu      sync.Mutex
	created []*corev1.Event
	patched []string
}

func (c *counter) Create(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if event, ok := obj.(*corev1.Event); ok {
		c.created = append(c.created, event)
	}
	return obj, nil
}

func (c *counter) Patch(_ context.Context, t podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patched = append(c.patched, t.Name+" "+string(patch))
	return nil, nil
}

func (c *counter) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.created)
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &counter{}
		r := New(Config{API: api, RateLimit: RateLimit{PerSecond: 10, Burst: 20}, Component: "kubelet", Host: "n1", Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
		r.ContainerEvent(pod, "c", corev1.EventTypeNormal, "Killing", "Stopping container c")
		synctest.Wait()
		r.ContainerEvent(pod, "c", corev1.EventTypeNormal, "Killing", "Stopping container c")
		synctest.Wait()
		first := api.created[0]
		if first.InvolvedObject.FieldPath != "spec.containers{c}" || first.Count != 1 || first.Source.Host != "n1" {
			t.Errorf("the first is %+v", first)
		}
		want := fmt.Sprintf(`%s {"count":2,"lastTimestamp":"2000-01-01T00:00:00Z"}`, first.Name)
		if len(api.created) != 1 || len(api.patched) != 1 || api.patched[0] != want {
			t.Errorf("KBL-34: it created %d and patched %q, want %q", len(api.created), api.patched, want)
		}
		for i := range 100 {
			r.Event(pod, corev1.EventTypeWarning, "Failed", fmt.Sprint(i))
		}
		synctest.Wait()
		if got := api.sent(); got != 19 {
			t.Errorf("at once it sent %d, want the rest of the burst, 18, and the one before", got)
		}
		time.Sleep(time.Second)
		if got := api.sent(); got < 28 || got > 30 {
			t.Errorf("after a second it has sent %d", got)
		}
		for i := range 5000 {
			r.Event(pod, corev1.EventTypeWarning, "Flood", fmt.Sprint(i))
		}
		r.mu.Lock()
		if len(r.queue) > queueLimit || len(r.known) > knownLimit {
			t.Errorf("it keeps %d and knows %d", len(r.queue), len(r.known))
		}
		r.mu.Unlock()
		cancel()
		<-done //nolint:errcheck // the context's
	})
}
