package apiserver_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/apiserver/expiry"
)

func events(name string) podapi.Target {
	kind, _ := kinds.ByResource("events")
	return podapi.Target{Kind: kind, Namespace: "default", Name: name}
}

func (c *client) report(name string) {
	c.t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}, Reason: "Started",
	}
	if _, err := c.api.Create(c.t.Context(), events(""), event, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// again writes an Event once more.
func (c *client) again(name string) {
	c.t.Helper()
	if _, err := c.api.Patch(c.t.Context(), events(name), types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) left() string {
	c.t.Helper()
	list, err := c.api.List(c.t.Context(), events(""), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return strings.Join(names, " ")
}

// follow watches, again whenever a watch has ended, and returns what waits for the next event.
func (c *client) follow(target podapi.Target, revision string) func() (watch.EventType, metav1.Object) {
	var open watch.Interface
	patience := time.After(3 * time.Hour)
	return func() (watch.EventType, metav1.Object) {
		for {
			if open == nil {
				var err error
				if open, err = c.api.Watch(c.t.Context(), target, metav1.ListOptions{ResourceVersion: revision}); err != nil {
					c.t.Fatal(err)
				}
				c.t.Cleanup(open.Stop)
			}
			var event watch.Event
			var ok bool
			select {
			case event, ok = <-open.ResultChan():
			case <-patience:
				c.t.Fatal("nothing more happens")
			}
			if !ok {
				open = nil
				continue
			}
			obj, ok := event.Object.(metav1.Object)
			if !ok {
				c.t.Fatalf("a watch says %v", event)
			}
			revision = obj.GetResourceVersion()
			return event.Type, obj
		}
	}
}

// TestEventsExpire writes Events, and waits: each goes an hour, and less than a minute more,
// after its last write, and those of one minute go together.
func TestEventsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder, life := recording(t)
		s := newHarness(t, func(cfg *apiserver.Config) { cfg.History = recorder })
		c := s.client("client:admin")
		began := time.Now()
		c.report("first")
		time.Sleep(50 * time.Second)
		c.report("second")
		list, err := c.api.List(t.Context(), events(""), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		next := c.follow(events(""), list.ResourceVersion)
		time.Sleep(40 * time.Minute)
		c.report("third")
		c.report("fourth")
		c.again("second")
		if _, err := c.api.DeleteCollection(t.Context(), events(""), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=fourth"}); err != nil {
			t.Fatal(err)
		}
		var seen []string
		for len(seen) < 7 {
			what, obj := next()
			seen = append(seen, fmt.Sprintf("%s %s %v", what, obj.GetName(), time.Since(began)))
		}
		if want := []string{
			"ADDED third 40m50s", "ADDED fourth 40m50s", "MODIFIED second 40m50s", "DELETED fourth 40m50s",
			"DELETED first 1h1m0s", "DELETED second 1h41m50s", "DELETED third 1h41m50s",
		}; strings.Join(seen, ", ") != strings.Join(want, ", ") {
			t.Errorf("seen\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
		s.halt()
		expectExpired(t, life(), "default/first", "default/second default/third")
	})
}

// recording is a history for an apiserver, and what it has been told so far.
func recording(t *testing.T) (recorder *history.Recorder, life func() []history.Event) {
	t.Helper()
	var mu sync.Mutex
	var told []history.Event
	recorder, err := history.Open(history.Config{Process: "apiserver", Boot: "boot-1", OnEvent: func(e history.Event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return recorder, func() []history.Event {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(told)
	}
}

// expectExpired checks what the apiserver's own commits have removed: one line a commit, each
// asked for by an operation that is written down (A2).
func expectExpired(t *testing.T, life []history.Event, want ...string) {
	t.Helper()
	asked, removed, order := map[string]bool{}, map[string][]string{}, []string(nil)
	for _, e := range life {
		switch fact := e.Fact.(type) {
		case history.OpCall:
			asked[e.Cause] = fact.Identity == string(proto.APIServer)
		case history.Commit:
			if !asked[e.Cause] || fact.Resource != "events" {
				continue
			}
			if removed[e.Cause] == nil {
				order = append(order, e.Cause)
			}
			removed[e.Cause] = append(removed[e.Cause], fact.Key)
		}
	}
	var got []string
	for _, cause := range order {
		got = append(got, strings.Join(removed[cause], " "))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("commits of the apiserver's own: %q, want %q", got, want)
	}
}

// TestEventsExpireAfterAStart has a new apiserver find an Event: it gives it a whole hour.
func TestEventsExpireAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		s.client("client:admin").report("kept")
		time.Sleep(50 * time.Minute)
		s.halt()
		s.cfg.Boot = "boot-2"
		s.start()
		c := s.client("client:other")
		time.Sleep(expiry.TTL)
		if left := c.left(); left != "kept" {
			t.Errorf("an hour after the start there is %q, want kept", left)
		}
		time.Sleep(2 * time.Minute)
		if left := c.left(); left != "" {
			t.Errorf("an hour and two minutes after the start there is %q", left)
		}
	})
}
