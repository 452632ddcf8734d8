package podapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// recordingSink records the calls of a sink.
type recordingSink struct{ calls []string }

func (c *recordingSink) Replace(items []kinds.Object, resourceVersion string) {
	var names []string
	for _, item := range items {
		names = append(names, item.GetName())
	}
	c.calls = append(c.calls, strings.Join(names, ", ")+" at "+resourceVersion)
}

func (c *recordingSink) Apply(event watch.Event) {
	obj, _ := event.Object.(kinds.Object)
	c.calls = append(c.calls, string(event.Type)+" "+obj.GetName())
}

func TestWCH31ListsFromTheLastRevisionThenFromNowhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := func() []*proto.Response { return refusalResponse(t, apierrors.NewResourceExpired("too old")) }
		page := func(revision uint64, names ...string) []*proto.Response {
			list := &proto.List{Revision: revision}
			for _, name := range names {
				list.Items = append(list.Items, podItem(t, name, revision))
			}
			return []*proto.Response{{Version: proto.Version, Code: 200, List: list}}
		}
		gone := func() []*proto.Response {
			status := mustEncode(t, proto.StatusFrom(apierrors.NewResourceExpired("too old resource version: 9 (10)")))
			return []*proto.Response{{Version: proto.Version, Code: 200, Events: []*proto.Event{
				{Type: proto.EventType_EVENT_TYPE_ADDED, Revision: 9, Object: podItem(t, "c", 9).GetObject()},
				{Type: proto.EventType_EVENT_TYPE_ERROR, Object: status},
			}}}
		}
		var asked []string
		ctx, cancel := context.WithCancel(t.Context())
		link := &scriptedLink{answer: func(n int, to proto.APISubject, request *proto.Request) ([]*proto.Response, error) {
			opts := metav1.ListOptions{}
			if err := opts.Unmarshal(request.GetOptions()); err != nil {
				t.Error(err)
			}
			asked = append(asked, fmt.Sprintf("%s %q", to.Verb, opts.ResourceVersion))
			switch n {
			case 0:
				return page(5, "a", "b"), nil
			case 1:
				if opts.TimeoutSeconds == nil || *opts.TimeoutSeconds < 300 || *opts.TimeoutSeconds > 600 || !opts.AllowWatchBookmarks {
					t.Errorf("WCH-32: watch with %+v", opts)
				}
				return gone(), nil
			case 2:
				return expired(), nil
			case 3:
				return page(20, "b"), nil
			}
			cancel()
			return nil, errNever
		}}
		kept := &recordingSink{}
		if err := newClient(link, Config{}).Follow(ctx, Target{Kind: podKind}, metav1.ListOptions{}, kept); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		want := []string{`list "0"`, `watch "5"`, `list "9"`, `list ""`, `watch "20"`}
		if !slices.Equal(asked, want) {
			t.Errorf("asked %v, want %v", asked, want)
		}
		if wait := link.at[2].Sub(link.at[1]); wait < 800*time.Millisecond || wait > 1600*time.Millisecond {
			t.Errorf("listed again after %s, want 0.8 s to 1.6 s", wait)
		}
		told := []string{"a, b at 5", "ADDED c", "b at 20"}
		if !slices.Equal(kept.calls, told) {
			t.Errorf("the copy was told %q, want %q", kept.calls, told)
		}
	})
}
