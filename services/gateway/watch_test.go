package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
)

// client is the far end of a watch.
type client struct {
	ctx   context.Context
	began time.Time
	mu    sync.Mutex
	heard []string
	gone  bool
}

var errGone = errors.New("the client is gone")

func (c *client) write(frame []byte) error {
	var line struct {
		Type   string
		Object struct {
			Metadata struct{ ResourceVersion string }
		}
	}
	if err := json.Unmarshal(frame, &line); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errGone
	}
	c.heard = append(c.heard, fmt.Sprintf("%v %s %s", time.Since(c.began), line.Type, line.Object.Metadata.ResourceVersion))
	return nil
}

func (c *client) flush() error             { return nil }
func (c *client) context() context.Context { return c.ctx }
func (c *client) close()                   {}

// TestWatchCatchesUp delivers past and live events without repetition, and sends bookmarks every
// minute and before the end (WCH-20, WCH-24).
func TestWatchCatchesUp(t *testing.T) {
	runShared(t, func(t *testing.T, b *fakeSource, s *sharedWatches) {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		to := &client{ctx: ctx, began: time.Now()}
		w := newTestWatch(t, s, to, metav1.ListOptions{AllowWatchBookmarks: true})
		live := b.opened[0]
		live.Add(podAt(4)) // in the past too
		live.Add(podAt(6))
		var feeding sync.WaitGroup
		feeding.Go(func() {
			for i := range 149 { // to a second before the end, which stops what is fed
				time.Sleep(time.Second)
				if i == 99 {
					live.Modify(podAt(50))
				}
				live.Action(watch.Bookmark, podAt(max(7, i/100*60)))
			}
		})
		if err := w.run(ctx, podapi.Backlog{Events: []watch.Event{{Type: watch.Added, Object: podAt(4)}}, Revision: 5, Complete: true}); err != nil {
			t.Error(err)
		}
		w.reader.close()
		feeding.Wait()
		want := []string{"0s ADDED 4", "0s ADDED 6", "1m0s BOOKMARK 7", "1m40s MODIFIED 50", "2m0s BOOKMARK 60", "2m28s BOOKMARK 60"}
		if got := strings.Join(to.heard, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("heard:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
		}
		if took := time.Since(to.began); took < 150*time.Second || took > 151*time.Second {
			t.Errorf("it lasted %v", took)
		}
	})
}

// TestAWatchEnds with an ERROR, with its client, and with the gateway. It sends no bookmarks unless
// the client asked for them.
func TestAWatchEnds(t *testing.T) {
	for name, end := range map[string]func(b *fakeSource, to *client, ending chan struct{}){
		"an ERROR": func(b *fakeSource, _ *client, _ chan struct{}) {
			b.opened[0].Error(&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410})
		},
		"a client that has left": func(b *fakeSource, to *client, _ chan struct{}) {
			to.mu.Lock()
			to.gone = true
			to.mu.Unlock()
			b.opened[0].Add(podAt(9))
		},
		"the gateway's end":          func(_ *fakeSource, _ *client, ending chan struct{}) { close(ending) },
		"the end of the bus's watch": func(b *fakeSource, _ *client, _ chan struct{}) { b.opened[0].Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			runShared(t, func(t *testing.T, b *fakeSource, s *sharedWatches) {
				ending := make(chan struct{})
				to := &client{ctx: t.Context(), began: time.Now()}
				w := newTestWatch(t, s, to, metav1.ListOptions{})
				w.ending = ending
				var running sync.WaitGroup
				running.Go(func() { _ = w.run(t.Context(), podapi.Backlog{Complete: true}) })
				for range 3 {
					time.Sleep(time.Minute)
					b.opened[0].Action(watch.Bookmark, podAt(3))
				}
				synctest.Wait()
				if len(to.heard) > 0 {
					t.Errorf("heard %v", to.heard)
				}
				end(b, to, ending)
				running.Wait()
				if wantError := name == "an ERROR"; wantError != (len(to.heard) == 1) {
					t.Errorf("heard %v", to.heard)
				}
				w.reader.close()
			})
		})
	}
}

func newTestWatch(t *testing.T, s *sharedWatches, to *client, opts metav1.ListOptions) *clientWatch {
	t.Helper()
	kind := podsTarget().Kind
	g := &gateway{cfg: Config{Log: slog.New(slog.DiscardHandler)}, telemetry: newTelemetry()}
	c := &call{gateway: g, r: httptest.NewRequest(http.MethodGet, "/", nil), kind: kind}
	return &clientWatch{
		call: c, target: podsTarget(), opts: opts, reader: mustJoin(t, s, opts), out: to,
		frames: &framer{printer: printer{kind: kind, form: defaultForm()}},
	}
}
