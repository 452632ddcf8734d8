package podapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// scriptedLink is a link whose other end answers by a script.
type scriptedLink struct {
	mu      sync.Mutex
	asked   []*proto.Request
	subject []string
	at      []time.Time
	// answer to the nth request, from 0: parts, or an error; errNever is neither.
	answer func(n int, subject proto.APISubject, request *proto.Request) ([]*proto.Response, error)
}

var errNever = errors.New("no answer ever")

func (l *scriptedLink) Identity() proto.Identity { return proto.Client("ann") }

func (l *scriptedLink) nextAnswer(ctx context.Context, subject string, data []byte) ([]*proto.Response, error) {
	request := &proto.Request{}
	if err := protobuf.Unmarshal(data, request); err != nil {
		return nil, err
	}
	parsed, err := proto.ParseAPISubject(subject)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	n := len(l.asked)
	l.asked, l.subject, l.at = append(l.asked, request), append(l.subject, subject), append(l.at, time.Now())
	l.mu.Unlock()
	parts, err := l.answer(n, parsed, request)
	if errors.Is(err, errNever) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return parts, err
}

func (l *scriptedLink) Request(ctx context.Context, _ proto.Identity, subject string, data []byte) ([]byte, error) {
	parts, err := l.nextAnswer(ctx, subject, data)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return protobuf.Marshal(parts[0])
}

func (l *scriptedLink) Stream(ctx context.Context, _ proto.Identity, subject string, data []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		parts, err := l.nextAnswer(ctx, subject, data)
		for _, part := range parts {
			raw, err := protobuf.Marshal(part)
			if !yield(raw, err) {
				return
			}
		}
		if err != nil {
			yield(nil, fmt.Errorf("stream: %w", err))
		}
	}
}

func (l *scriptedLink) Publish(string, []byte) error { return nil }

func (l *scriptedLink) Subscribe(string, int) (subscription, error) { return idleSubscription{}, nil }

// idleSubscription is a live stream without messages.
type idleSubscription struct{}

func (idleSubscription) Next(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (idleSubscription) Close() {}

var podKind = kinds.Kind{
	GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: "pods", Namespaced: true,
}

var web = Target{Kind: podKind, Namespace: "default", Name: "web"}

func mustEncode(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	data, err := kinds.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func podItem(t *testing.T, name string, revision uint64) *proto.Item {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	return &proto.Item{Revision: revision, Object: mustEncode(t, p)}
}

func okResponse(item *proto.Item) []*proto.Response {
	return []*proto.Response{{Version: proto.Version, Code: 200, Boot: "b", Item: item}}
}

func refusalResponse(t *testing.T, err error) []*proto.Response {
	t.Helper()
	status := proto.StatusFrom(err)
	return []*proto.Response{{Version: proto.Version, Code: status.Code, Item: &proto.Item{Object: mustEncode(t, status)}}}
}

func TestARequestIsRepeatedUnderOneOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		schedule, err := clock.NewSchedule(began, 2)
		if err != nil {
			t.Fatal(err)
		}
		fast := clock.NewDriver(schedule).Clock()
		troubles := []error{bus.ErrNoResponder, bus.ErrDisconnected, bus.ErrAbandoned, errNever}
		link := &scriptedLink{answer: func(n int, _ proto.APISubject, _ *proto.Request) ([]*proto.Response, error) {
			if n < len(troubles) {
				return nil, troubles[n]
			}
			return okResponse(podItem(t, "web", 7)), nil
		}}
		c := newClient(link, Config{Clock: fast, Boot: "boot-1"})
		obj, err := c.Get(t.Context(), web, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if obj.GetName() != "web" || obj.GetResourceVersion() != "7" {
			t.Errorf("got %s at %s", obj.GetName(), obj.GetResourceVersion())
		}
		first := link.asked[0]
		for n, request := range link.asked {
			if !protobuf.Equal(first, request) {
				t.Errorf("request %d is %v, the first was %v", n, request, first)
			}
		}
		if len(link.asked) != len(troubles)+1 || first.GetOperation() == "" || first.GetBoot() != "boot-1" || first.GetApiVersion() != "v1" {
			t.Errorf("asked %d times, first %v", len(link.asked), first)
		}
		// 30 s of cluster time, which are 15 s of the wall.
		if deadline := time.Unix(0, first.GetDeadlineUnixNano()); !deadline.Equal(began.Add(15 * time.Second)) {
			t.Errorf("deadline %s after the start, want 15s", deadline.Sub(began))
		}
		if want := "api.client:ann.get.pods.default.web"; link.subject[0] != want {
			t.Errorf("asked on %s, want %s", link.subject[0], want)
		}
	})
}

// expiredContext has a deadline in the past but is not done.
type expiredContext struct{ context.Context }

func (expiredContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// A request without a deadline would be carried out whenever it came.
func TestACallThatIsTooLateIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
			return okResponse(podItem(t, "web", 7)), nil
		}}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		c := newClient(link, Config{})
		for want, ctx := range map[error]context.Context{context.DeadlineExceeded: expiredContext{t.Context()}, context.Canceled: over} {
			if _, err := c.Delete(ctx, web, metav1.DeleteOptions{}); !errors.Is(err, want) {
				t.Errorf("Delete: %v, want %v", err, want)
			}
			if _, err := c.List(ctx, Target{Kind: podKind}, metav1.ListOptions{}); !errors.Is(err, want) {
				t.Errorf("List: %v, want %v", err, want)
			}
		}
		if len(link.asked) != 0 {
			t.Errorf("%d requests were sent, the first with deadline %d", len(link.asked), link.asked[0].GetDeadlineUnixNano())
		}
	})
}

// TestNoObjectsNameIsNotSent calls with text of a client's that is the name of no object: it becomes
// part of no subject, and the call is refused at once.
func TestNoObjectsNameIsNotSent(t *testing.T) {
	link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
		return okResponse(podItem(t, "web", 7)), nil
	}}
	c := newClient(link, Config{})
	long := strings.Repeat("x", 254)
	for name, target := range map[string]Target{
		"a long name":        {Kind: podKind, Namespace: "default", Name: long},
		"a long namespace":   {Kind: podKind, Namespace: long, Name: "web"},
		"a long subresource": {Kind: podKind, Namespace: "default", Name: "web", Subresource: long},
		"a long resource":    {Kind: kinds.Kind{GroupVersionKind: podKind.GroupVersionKind, Resource: long}, Name: "web"},
		"a path":             {Kind: podKind, Namespace: "default", Name: ".."},
		"a percent sign":     {Kind: podKind, Namespace: "default", Name: "a%2Fb"},
		"a control":          {Kind: podKind, Namespace: "default", Name: "a\nb"},
	} {
		refused := map[string]error{}
		_, refused["get"] = c.Get(t.Context(), target, metav1.GetOptions{})
		_, refused["delete"] = c.Delete(t.Context(), target, metav1.DeleteOptions{})
		_, refused["patch"] = c.Patch(t.Context(), target, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		_, refused["do"] = c.Do(t.Context(), RawRequest{Verb: proto.VerbList, Target: target, Options: &metav1.ListOptions{}})
		for verb, err := range refused {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%s: %s: %v, want a BadRequest", name, verb, err)
			}
		}
	}
	if len(link.asked) != 0 {
		t.Errorf("%d requests were sent, the first to %.80s", len(link.asked), link.subject[0])
	}
	longest := Target{Kind: podKind, Namespace: "default", Name: strings.Repeat("x", 253)}
	if _, err := c.Get(t.Context(), longest, metav1.GetOptions{}); err != nil || len(link.asked) != 1 {
		t.Errorf("the longest name: %v", err)
	}
}

func TestOperationsDiffer(t *testing.T) {
	link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
		return okResponse(podItem(t, "web", 7)), nil
	}}
	c := newClient(link, Config{})
	for range 2 {
		if _, err := c.Get(t.Context(), web, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := link.asked[0].GetOperation(), link.asked[1].GetOperation(); a == b {
		t.Errorf("two calls are both operation %s", a)
	}
}

func TestACallEnds(t *testing.T) {
	cancelled := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	for name, row := range map[string]struct {
		trouble error
		ctx     func(*testing.T) context.Context
		speed   float64
		want    func(error) bool
		after   time.Duration
	}{
		"nobody serves":    {bus.ErrNoResponder, (*testing.T).Context, 1, apierrors.IsServiceUnavailable, 30 * time.Second},
		"no connection":    {bus.ErrDisconnected, (*testing.T).Context, 1, apierrors.IsServiceUnavailable, 30 * time.Second},
		"no answer":        {errNever, (*testing.T).Context, 1, apierrors.IsTimeout, 30 * time.Second},
		"a fast cluster":   {errNever, (*testing.T).Context, 10, apierrors.IsTimeout, 3 * time.Second},
		"a faster cluster": {errNever, (*testing.T).Context, 1000, apierrors.IsTimeout, minTimeout},
		"a slow cluster":   {errNever, (*testing.T).Context, 0.01, apierrors.IsTimeout, 30 * time.Second},
		"the caller's end": {
			bus.ErrNoResponder, cancelled, 1,
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, 3 * time.Second,
		},
		"closed":    {bus.ErrClosed, (*testing.T).Context, 1, func(err error) bool { return errors.Is(err, bus.ErrClosed) }, 0},
		"forbidden": {bus.ErrForbidden, (*testing.T).Context, 1, apierrors.IsForbidden, 0},
		"too large": {bus.ErrTooLarge, (*testing.T).Context, 1, apierrors.IsRequestEntityTooLargeError, 0},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s streamed=%t", name, streamed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					schedule, err := clock.NewSchedule(began, row.speed)
					if err != nil {
						t.Fatal(err)
					}
					clk := clock.NewDriver(schedule).Clock()
					link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
						return nil, row.trouble
					}}
					c := newClient(link, Config{Clock: clk})
					if streamed {
						_, err = c.List(row.ctx(t), Target{Kind: podKind}, metav1.ListOptions{})
					} else {
						_, err = c.Get(row.ctx(t), web, metav1.GetOptions{})
					}
					if !row.want(err) {
						t.Errorf("ended with %v", err)
					}
					if after := time.Since(began); after != row.after {
						t.Errorf("ended after %s, want %s", after, row.after)
					}
				})
			})
		}
	}
}

func TestRefusalsAreTheServers(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, row := range map[string]struct {
		err  error
		want func(error) bool
	}{
		"404": {apierrors.NewNotFound(pods, "web"), apierrors.IsNotFound},
		"409": {apierrors.NewConflict(pods, "web", errors.New("other uid")), apierrors.IsConflict},
		"410": {apierrors.NewResourceExpired("gone"), apierrors.IsResourceExpired},
		"429": {apierrors.NewTooManyRequests("budget", 10), apierrors.IsTooManyRequests},
		"500": {errors.New("disk"), apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
				return refusalResponse(t, row.err), nil
			}}
			c := newClient(link, Config{})
			_, err := c.Delete(t.Context(), web, metav1.DeleteOptions{})
			if !row.want(err) || err.Error() != proto.ErrorFrom(proto.StatusFrom(row.err)).Error() {
				t.Errorf("got %v, want %v", err, row.err)
			}
			if len(link.asked) != 1 {
				t.Errorf("asked %d times for what was refused", len(link.asked))
			}
		})
	}
}

func TestBadAnswers(t *testing.T) {
	for name, answer := range map[string]*proto.Response{
		"another version": {Version: proto.Version + 1, Code: 200},
		"nothing":         {Version: proto.Version, Code: 200},
		"no object":       {Version: proto.Version, Code: 200, Item: &proto.Item{Object: []byte("x")}},
		"no reason":       {Version: proto.Version, Code: 404},
		"a false refusal": {Version: proto.Version, Code: 500, Item: &proto.Item{Object: mustEncode(t, &metav1.Status{Status: metav1.StatusSuccess})}},
		"another kind":    {Version: proto.Version, Code: 500, Item: podItem(t, "web", 1)},
		"a bare status":   {Version: proto.Version, Code: 200, Item: &proto.Item{Object: mustEncode(t, &metav1.Status{})}},
	} {
		t.Run(name, func(t *testing.T) {
			link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
				return []*proto.Response{answer}, nil
			}}
			if obj, err := newClient(link, Config{}).Get(t.Context(), web, metav1.GetOptions{}); err == nil {
				t.Errorf("got %v without an error", obj)
			}
		})
	}
}

func TestWarningsArePassedOn(t *testing.T) {
	link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
		answer := okResponse(podItem(t, "web", 7))
		answer[0].Warnings = []string{"one", "two"}
		return answer, nil
	}}
	var heard []string
	c := newClient(link, Config{Warn: func(text string) { heard = append(heard, text) }})
	if _, err := c.Patch(t.Context(), web, types.MergePatchType, []byte("{}"), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(heard, []string{"one", "two"}) {
		t.Errorf("heard %v", heard)
	}
}

func TestDeleteAnswersWithObjectOrStatus(t *testing.T) {
	items := []*proto.Item{podItem(t, "web", 9), {Object: mustEncode(t, &metav1.Status{Status: metav1.StatusSuccess})}}
	link := &scriptedLink{answer: func(n int, _ proto.APISubject, _ *proto.Request) ([]*proto.Response, error) {
		return okResponse(items[n]), nil
	}}
	c := newClient(link, Config{})
	grace := int64(0)
	obj, err := c.Delete(t.Context(), web, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	if p, isPod := obj.(*corev1.Pod); err != nil || !isPod || p.ResourceVersion != "9" {
		t.Errorf("got %v, %v", obj, err)
	}
	sent := metav1.DeleteOptions{}
	if err := sent.Unmarshal(link.asked[0].GetOptions()); err != nil || sent.GracePeriodSeconds == nil || *sent.GracePeriodSeconds != 0 {
		t.Errorf("sent %v, %v", sent, err)
	}
	obj, err = c.Delete(t.Context(), web, metav1.DeleteOptions{})
	if status, isStatus := obj.(*metav1.Status); err != nil || !isStatus || status.Status != metav1.StatusSuccess {
		t.Errorf("got %v, %v", obj, err)
	}
}

func TestABindingIsAnsweredWithAStatus(t *testing.T) {
	link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
		return okResponse(&proto.Item{Object: mustEncode(t, &metav1.Status{Status: metav1.StatusSuccess})}), nil
	}}
	binding := web
	binding.Subresource = "binding"
	obj, err := newClient(link, Config{}).Create(t.Context(), binding, &corev1.Binding{}, metav1.CreateOptions{})
	if obj != nil || err != nil {
		t.Errorf("got %v, %v", obj, err)
	}
}

func TestAnUpdateCarriesItsPrecondition(t *testing.T) {
	link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
		return okResponse(podItem(t, "web", 8)), nil
	}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "7"}}
	status := web
	status.Subresource = "status"
	if _, err := newClient(link, Config{}).Update(t.Context(), status, p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	sent, err := kinds.Decode(link.asked[0].GetBody())
	if err != nil || sent.GetResourceVersion() != "7" {
		t.Errorf("sent %v, %v", sent, err)
	}
	if want := "api.client:ann.update.pods/status.default.web"; link.subject[0] != want {
		t.Errorf("asked on %s, want %s", link.subject[0], want)
	}
}

func TestAListIsReadToItsEnd(t *testing.T) {
	link := &scriptedLink{answer: func(n int, _ proto.APISubject, _ *proto.Request) ([]*proto.Response, error) {
		head := &proto.Response{Version: proto.Version, Code: 200, List: &proto.List{
			Revision: 12, Continue: "next", Remaining: 3, Items: []*proto.Item{podItem(t, "a", 4)},
		}}
		if n == 0 {
			// It breaks in the middle, and starts over.
			return []*proto.Response{head}, bus.ErrDisconnected
		}
		return []*proto.Response{head, {Version: proto.Version, Code: 200, List: &proto.List{
			Items: []*proto.Item{podItem(t, "b", 12)},
		}}}, nil
	}}
	page, err := newClient(link, Config{}).List(t.Context(), Target{Kind: podKind}, metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	if page.ResourceVersion != "12" || page.Continue != "next" || page.Remaining == nil || *page.Remaining != 3 {
		t.Errorf("got %+v", page)
	}
	if len(page.Items) != 2 || page.Items[0].GetResourceVersion() != "4" || page.Items[1].GetName() != "b" {
		t.Errorf("got items %v", page.Items)
	}
	last := &List{}
	last.setMeta(&proto.List{Revision: 12, Remaining: 0})
	if last.Remaining != nil {
		t.Errorf("the last page has %d objects after it, want none told", *last.Remaining)
	}
}

func TestANameSelectsInACollection(t *testing.T) {
	link := &scriptedLink{answer: func(int, proto.APISubject, *proto.Request) ([]*proto.Response, error) {
		return []*proto.Response{{Version: proto.Version, Code: 200, List: &proto.List{Revision: 1}}}, nil
	}}
	if _, err := newClient(link, Config{}).List(t.Context(), web, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}); err != nil {
		t.Fatal(err)
	}
	sent := metav1.ListOptions{}
	if err := sent.Unmarshal(link.asked[0].GetOptions()); err != nil || sent.FieldSelector != "metadata.name=web,spec.nodeName=n1" {
		t.Errorf("selected by %q, %v", sent.FieldSelector, err)
	}
	if want := "api.client:ann.list.pods.default._"; link.subject[0] != want {
		t.Errorf("asked on %s, want %s", link.subject[0], want)
	}
}

func TestASlowAnswerInPartsIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each part comes within the patience, all of them together do not.
		heard := 0
		err := withIdleTimeout(t.Context(), 5*time.Second, func(_ context.Context, sign func()) error {
			for range 4 {
				time.Sleep(4 * time.Second)
				heard++
				sign()
			}
			return nil
		})
		if err != nil || heard != 4 {
			t.Errorf("heard %d of 4 parts, %v", heard, err)
		}
		err = withIdleTimeout(t.Context(), 5*time.Second, func(ctx context.Context, _ func()) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, errSilent) {
			t.Errorf("silence ended with %v", err)
		}
	})
}
