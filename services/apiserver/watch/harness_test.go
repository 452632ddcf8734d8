package watch_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	k8swatch "k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/watch"
)

// harness is a real store, hub and bus, with as much of an apiserver around them as lists and
// watches need. It runs inside a bubble.
type harness struct {
	t     testing.TB
	path  string
	limit int // of the history
	bus   *bus.Server
	boots int

	store *store.Store
	hub   *watch.Hub
	stop  func()

	mu sync.Mutex
	// lose says which messages of the live stream are dropped.
	lose func(*proto.Frame) bool
	// asked counts the watch requests.
	asked int
	links []net.Conn
}

func newHarness(t testing.TB, history int) *harness {
	t.Helper()
	s := &harness{t: t, path: filepath.Join(t.TempDir(), "store"), limit: history}
	var err error
	if s.bus, err = bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.bus.Close)
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

// start runs an apiserver; stop ends it.
func (s *harness) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var err error
	var hub *watch.Hub
	s.store, err = store.Open(ctx, store.Config{
		Path: s.path, NoSync: true, History: s.limit,
		OnCommit: func(now *store.Snapshot, events []store.Event) { hub.OnCommit(now, events) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	conn := s.dial(proto.APIServer)
	s.boots++
	boot := proto.NewBoot(time.Now(), [4]byte{byte(s.boots)})
	hub = watch.New(watch.Config{Boot: boot, Store: s.store, Match: match, Publish: func(subject string, frame *proto.Frame) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lose != nil && s.lose(frame) {
			return nil
		}
		return watch.EncodeTo(conn.Publish)(subject, frame)
	}})
	s.hub = hub
	var parts sync.WaitGroup
	parts.Go(func() { _ = s.store.Run(ctx) })
	parts.Go(func() { _ = hub.Run(ctx) })
	parts.Go(func() {
		_ = conn.Serve(ctx, "api.>", func(ctx context.Context, call *bus.Call) { s.serve(ctx, hub, boot, call) })
	})
	opened := s.store
	s.stop = func() {
		cancel()
		parts.Wait()
		conn.Close()
		if err := opened.Close(); err != nil {
			s.t.Errorf("close store: %v", err)
		}
	}
	synctest.Wait() // until requests are served
}

// restart starts a new boot over the same disk.
func (s *harness) restart() {
	s.stop()
	time.Sleep(time.Second)
	s.start()
}

func (s *harness) serve(ctx context.Context, hub *watch.Hub, boot proto.Boot, call *bus.Call) {
	send := func(ctx context.Context, part *proto.Response, more bool) error {
		part.Version, part.Boot = proto.Version, string(boot)
		data, err := protobuf.Marshal(part)
		if err != nil {
			return err
		}
		return call.Send(ctx, data, more)
	}
	if err := s.answer(ctx, hub, call, send); err != nil {
		status := proto.StatusFrom(err)
		data, _ := kinds.Encode(status)
		_ = send(ctx, &proto.Response{Code: status.Code, Item: &proto.Item{Object: data}}, false)
	}
}

func (s *harness) answer(ctx context.Context, hub *watch.Hub, call *bus.Call, send watch.Send) error {
	subject, err := proto.ParseAPISubject(call.Subject)
	if err != nil {
		return err
	}
	request := &proto.Request{}
	if err := protobuf.Unmarshal(call.Data, request); err != nil {
		return err
	}
	options := metav1.ListOptions{}
	if err := options.Unmarshal(request.GetOptions()); err != nil {
		return err
	}
	scope, err := proto.ScopeFor(subject.Resource, subject.Namespace, &options)
	if err != nil {
		return err
	}
	switch {
	case subject.Subresource == proto.SubresourceRenew:
		hub.Renew(subject.Identity.Class(), scope)
		return send(ctx, &proto.Response{Code: 200}, false)
	case subject.Verb == proto.VerbList:
		return s.list(ctx, scope, send)
	}
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	return hub.Open(ctx, watch.Request{Class: subject.Identity.Class(), Scope: scope, Options: options}, send)
}

func (s *harness) list(ctx context.Context, scope proto.WatchScope, send watch.Send) error {
	now := s.store.Snapshot()
	list := &proto.List{Revision: uint64(now.Revision()), Remaining: -1}
	for record := range now.Scan(scope.Resource, scope.Namespace, "") {
		list.Items = append(list.Items, &proto.Item{Revision: uint64(record.Revision), Object: record.Data})
	}
	return send(ctx, &proto.Response{Code: 200, List: list}, false)
}

func match(_ string, obj kinds.Object) (labels.Set, fields.Set) {
	seen := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	if pod, ok := obj.(*corev1.Pod); ok {
		seen["spec.nodeName"], seen["status.phase"] = pod.Spec.NodeName, string(pod.Status.Phase)
	}
	return obj.GetLabels(), seen
}

func (s *harness) dial(id proto.Identity) *bus.Conn {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
	defer cancel()
	conn, err := bus.Dial(ctx, bus.Config{Identity: id, InProcess: func() (net.Conn, error) {
		link, err := s.bus.InProcessConn()
		if err == nil && id != proto.APIServer {
			s.mu.Lock()
			s.links = append(s.links, link)
			s.mu.Unlock()
		}
		return link, err
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// dropFrames drops the messages of the live stream that lose selects; nil drops none.
func (s *harness) dropFrames(lose func(*proto.Frame) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = lose
}

// cutConnections breaks every connection of a reader; they are made again.
func (s *harness) cutConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, link := range s.links {
		_ = link.Close()
	}
	s.links = nil
}

// client returns a reader's own connection.
func (s *harness) client(id proto.Identity) *podapi.Client {
	s.t.Helper()
	conn := s.dial(id)
	s.t.Cleanup(conn.Close)
	return podapi.New(conn, podapi.Config{Seed: 7})
}

func (s *harness) commit(writes ...store.Write) []store.Event {
	s.t.Helper()
	events, err := s.store.Commit(context.WithoutCancel(s.t.Context()), store.Commit{Writes: writes})
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// put writes a pod, new or not, and returns the revision.
func (s *harness) put(p *corev1.Pod) int64 {
	s.t.Helper()
	events := s.commit(store.Write{Key: keyOf(p), Expect: store.Any, Object: p.DeepCopy()})
	if len(events) == 0 {
		return s.store.Snapshot().Revision()
	}
	return events[0].Revision
}

func (s *harness) delete(p *corev1.Pod) int64 {
	s.t.Helper()
	return s.commit(store.Write{Key: keyOf(p), Expect: store.Any})[0].Revision
}

func keyOf(p *corev1.Pod) store.Key {
	return store.Key{Resource: "pods", Namespace: p.Namespace, Name: p.Name}
}

func pod(namespace, name string, with map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Labels: with,
	}}
}

func pods(namespace string) podapi.Target {
	kind, ok := kinds.ByResource("pods")
	if !ok {
		panic("pods are not a kind")
	}
	return podapi.Target{Kind: kind, Namespace: namespace}
}

// openWatch is an open watch and the events that it has received.
type openWatch struct {
	s *harness
	k8swatch.Interface
}

func (s *harness) watch(c *podapi.Client, t podapi.Target, opts metav1.ListOptions) *openWatch {
	s.t.Helper()
	w, err := c.Watch(s.t.Context(), t, opts)
	if err != nil {
		s.t.Fatalf("watch %s: %v", t, err)
	}
	s.t.Cleanup(w.Stop)
	return &openWatch{s, w}
}

// line is an event in the form "ADDED name revision".
func line(event k8swatch.Event) string {
	switch obj := event.Object.(type) {
	case *metav1.Status:
		return fmt.Sprintf("%s %d %s", event.Type, obj.Code, obj.Message)
	case kinds.Object:
		text := fmt.Sprintf("%s %s %s", event.Type, obj.GetName(), obj.GetResourceVersion())
		if event.Type == k8swatch.Bookmark {
			text = fmt.Sprintf("%s %s", event.Type, obj.GetResourceVersion())
			if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				text += " end"
			}
		}
		return text
	}
	return fmt.Sprintf("%s %T", event.Type, event.Object)
}

// next waits for one event.
func (w *openWatch) next() k8swatch.Event {
	w.s.t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			w.s.t.Fatal("the watch has ended")
		}
		return event
	case <-time.After(30 * time.Second):
		w.s.t.Fatal("no event in 30 s")
	}
	return k8swatch.Event{}
}

// expect checks the next events, as line prints them; "%d" in them stands for the revisions.
func (w *openWatch) expect(want ...string) {
	w.s.t.Helper()
	for _, wanted := range want {
		if got := line(w.next()); got != wanted {
			w.s.t.Fatalf("got %q, want %q", got, wanted)
		}
	}
}

// expectNone fails if an event arrives now or within d.
func (w *openWatch) expectNone(d time.Duration) {
	w.s.t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			w.s.t.Fatal("the watch has ended")
		}
		w.s.t.Fatalf("got %q, want nothing", line(event))
	case <-time.After(d):
	}
}

// expectEnd fails unless the watch ends within d without another event.
func (w *openWatch) expectEnd(d time.Duration) {
	w.s.t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if ok {
			w.s.t.Fatalf("got %q, want the end", line(event))
		}
	case <-time.After(d):
		w.s.t.Fatal("the watch has not ended")
	}
}

func at(revision int64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: strconv.FormatInt(revision, 10)}
}

func as(eventType string, p *corev1.Pod, revision int64) string {
	return fmt.Sprintf("%s %s %d", eventType, p.Name, revision)
}
