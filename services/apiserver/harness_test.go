package apiserver_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver"
)

// harness is an apiserver on a bus of its own, all in one process.
type harness struct {
	t    testing.TB
	hub  *bus.Server
	cfg  apiserver.Config
	halt func()
}

func newHarness(t testing.TB, change ...func(*apiserver.Config)) *harness {
	t.Helper()
	hub, err := bus.StartServer(t.Context(), bus.ServerConfig{Port: bus.InProcessOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	s := &harness{t: t, hub: hub}
	s.cfg = apiserver.Config{DataDir: t.TempDir(), Boot: "boot-1", NoSync: true}
	for _, c := range change {
		c(&s.cfg)
	}
	s.start()
	t.Cleanup(func() { s.halt() })
	return s
}

// start runs the apiserver until halt.
func (s *harness) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	conn := s.connect(proto.APIServer)
	s.cfg.Bus = conn
	ready := make(chan struct{})
	s.cfg.Ready = func() { close(ready) }
	var running sync.WaitGroup
	running.Go(func() {
		if err := apiserver.Run(ctx, s.cfg); err != nil {
			s.t.Errorf("apiserver: %v", err)
		}
	})
	s.halt = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		conn.Close()
	})
	<-ready
}

func (s *harness) dial(id proto.Identity) *bus.Conn {
	s.t.Helper()
	conn := s.connect(id)
	s.t.Cleanup(conn.Close)
	return conn
}

func (s *harness) connect(id proto.Identity) *bus.Conn {
	s.t.Helper()
	conn, err := bus.Dial(s.t.Context(), bus.Config{Identity: id, InProcess: s.hub.InProcessConn})
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// client is a client of the API. All its pods are called p, and belong on n1.
type client struct {
	t   testing.TB
	api *podapi.Client
}

func (s *harness) client(id proto.Identity) *client {
	return &client{t: s.t, api: podapi.New(s.dial(id), podapi.Config{})}
}

func pods(name, sub string) podapi.Target {
	kind, _ := kinds.ByResource("pods")
	return podapi.Target{Kind: kind, Namespace: "default", Name: name, Subresource: sub}
}

func (c *client) create(change ...func(*corev1.Pod)) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}},
	}
	for _, f := range change {
		f(pod)
	}
	created, err := c.api.Create(c.t.Context(), pods("", ""), pod, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return asPod(c.t, created)
}

func asPod(t testing.TB, obj any) *corev1.Pod {
	t.Helper()
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		t.Fatalf("%T is no pod", obj)
	}
	return pod
}

func (c *client) bind() {
	c.t.Helper()
	binding := &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	if _, err := c.api.Create(c.t.Context(), pods("p", "binding"), binding, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) get() *corev1.Pod {
	c.t.Helper()
	obj, err := c.api.Get(c.t.Context(), pods("p", ""), metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return asPod(c.t, obj)
}

func (c *client) phase(phase corev1.PodPhase) {
	c.t.Helper()
	pod := c.get()
	pod.Status.Phase = phase
	if _, err := c.api.Update(c.t.Context(), pods("p", "status"), pod, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) delete(opts metav1.DeleteOptions) *corev1.Pod {
	c.t.Helper()
	obj, err := c.api.Delete(c.t.Context(), pods("p", ""), opts)
	if err != nil {
		c.t.Fatal(err)
	}
	return asPod(c.t, obj)
}

func (c *client) finalize() {
	c.t.Helper()
	pod := c.get()
	pod.Finalizers = nil
	if _, err := c.api.Update(c.t.Context(), pods("p", ""), pod, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func grace(seconds int64) metav1.DeleteOptions {
	return metav1.DeleteOptions{GracePeriodSeconds: &seconds}
}

// watchLog is what a watch has seen, a line an event.
type watchLog struct {
	t      testing.TB
	events watch.Interface
	zero   time.Time
	last   int64
}

// watch follows all pods from now on.
func (c *client) watch(opts metav1.ListOptions) *watchLog {
	c.t.Helper()
	list, err := c.api.List(c.t.Context(), pods("", ""), metav1.ListOptions{FieldSelector: opts.FieldSelector})
	if err != nil {
		c.t.Fatal(err)
	}
	if opts.ResourceVersion == "" {
		opts.ResourceVersion = list.ResourceVersion
	}
	events, err := c.api.Watch(c.t.Context(), pods("", ""), opts)
	if err != nil {
		c.t.Fatal(err)
	}
	s := &watchLog{t: c.t, events: events, zero: time.Now()}
	c.t.Cleanup(s.stop)
	return s
}

func (s *watchLog) stop() {
	s.events.Stop()
	for range s.events.ResultChan() {
	}
}

// expect reads as many events as there are lines: type, seconds from the beginning to the
// deadline, grace, generation, phase and finalizers.
func (s *watchLog) expect(lines ...string) {
	s.t.Helper()
	for _, want := range lines {
		event, ok := <-s.events.ResultChan()
		if !ok {
			s.t.Fatalf("the watch has ended before %q", want)
		}
		if got := s.describe(event); got != want {
			s.t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// expectNone checks that no event is left.
func (s *watchLog) expectNone() {
	s.t.Helper()
	synctest.Wait()
	select {
	case event := <-s.events.ResultChan():
		s.t.Errorf("unexpected: %s", s.describe(event))
	default:
	}
}

func (s *watchLog) describe(event watch.Event) string {
	if event.Type == watch.Error {
		return fmt.Sprintf("ERROR %v", event.Object)
	}
	pod := asPod(s.t, event.Object)
	revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	if err != nil || revision <= s.last {
		s.t.Errorf("revision %s after %d: %v", pod.ResourceVersion, s.last, err)
	}
	s.last = revision
	text := string(event.Type)
	if at := pod.DeletionTimestamp; at != nil {
		text += fmt.Sprintf(" %+ds", int(at.Sub(s.zero.Truncate(time.Second)).Seconds()))
	}
	if g := pod.DeletionGracePeriodSeconds; g != nil {
		text += fmt.Sprintf(" grace=%d", *g)
	}
	text += fmt.Sprintf(" gen=%d %s", pod.Generation, pod.Status.Phase)
	if len(pod.Finalizers) > 0 {
		text += fmt.Sprint(" ", pod.Finalizers)
	}
	return text
}

// raw sends any bytes on any subject, and decodes the answer.
func (s *harness) raw(conn *bus.Conn, subject string, data []byte) (*proto.Response, *metav1.Status) {
	s.t.Helper()
	answer, err := conn.Request(s.t.Context(), proto.APIServer, subject, data)
	if err != nil {
		s.t.Fatalf("%s: %v", subject, err)
	}
	response := &proto.Response{}
	if err := protobuf.Unmarshal(answer, response); err != nil {
		s.t.Fatal(err)
	}
	decoded, err := kinds.DecodeAny(response.GetItem().GetObject())
	if err != nil {
		return response, nil
	}
	status, _ := decoded.(*metav1.Status)
	return response, status
}

func marshal(request *proto.Request) []byte {
	data, err := protobuf.Marshal(request)
	if err != nil {
		panic(err)
	}
	return data
}
