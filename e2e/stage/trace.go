package stage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Trace is what crossed the buses, by time and then by actor: the requests about pods
// (api), what a watcher of all pods saw (watch), the events that were written (by component),
// and what the kubelets asked of their runtimes (cri).
type Trace struct {
	t     testing.TB
	conns []*nats.Conn

	mu    sync.Mutex
	steps []Step
	gone  map[string]bool // the pods that the watch saw leave, by name
}

// Step is one line of a trace.
type Step struct {
	At    time.Time
	Actor string
	Text  string
}

// watcher is the actor that only watches.
const watcher = "watch"

func newTrace(t testing.TB, hub func() (net.Conn, error)) *Trace {
	tr := &Trace{t: t, gone: map[string]bool{}}
	tr.listen(hub, proto.RootAPI+".>", tr.addRequest)
	return tr
}

// addNode adds the calls on a node's private bus.
func (tr *Trace) addNode(node string, open func() (net.Conn, error)) {
	tr.listen(open, proto.RootCRI+".>", func(msg *nats.Msg) { tr.addCall(node, msg) })
}

type dialer func() (net.Conn, error)

// InProcessConn implements nats.InProcessConnProvider.
func (open dialer) InProcessConn() (net.Conn, error) { return open() }

func (tr *Trace) listen(open func() (net.Conn, error), subject string, note nats.MsgHandler) {
	conn, err := nats.Connect("", nats.InProcessServer(dialer(open)), nats.NoReconnect())
	if err == nil {
		_, err = conn.Subscribe(subject, note)
	}
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.conns = append(tr.conns, conn)
}

func (tr *Trace) end() {
	for _, conn := range tr.conns {
		conn.Close()
	}
}

func (tr *Trace) add(actor, format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, Step{At: time.Now(), Actor: actor, Text: fmt.Sprintf(format, args...)})
}

// Take returns the steps since the last Take. Steps of one instant are in the order of
// their actors, because goroutines of one instant have none. For the same reason statuses of
// pods that are gone are left out: whether a kubelet still sends one depends on which of its
// goroutines hears of a forced delete first, and it changes nothing (KBL-63).
func (tr *Trace) Take() []Step {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	steps := tr.steps
	tr.steps = nil
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Actor, b.Actor))
	})
	return slices.DeleteFunc(steps, func(s Step) bool {
		verb, what, _ := strings.Cut(s.Text, " ")
		name, _, _ := strings.Cut(strings.TrimSpace(what), " ")
		pod, status := strings.CutSuffix(name, "/status")
		switch {
		case s.Actor == watcher:
			tr.gone[name] = verb == string(watch.Deleted)
		case status:
			return tr.gone[pod]
		}
		return false
	})
}

// addRequest adds a request that writes pods.
func (tr *Trace) addRequest(msg *nats.Msg) {
	subject, err := proto.ParseAPISubject(msg.Subject)
	if err != nil || subject.Resource != "pods" {
		return
	}
	var envelope proto.Request
	if err := protobuf.Unmarshal(msg.Data, &envelope); err != nil {
		tr.t.Errorf("request on %s: %v", msg.Subject, err)
		return
	}
	what := subject.Name
	if subject.Subresource != "" {
		what += "/" + subject.Subresource
	}
	switch subject.Verb {
	case proto.VerbCreate, proto.VerbUpdate, proto.VerbPatch:
		tr.add(actor(subject.Identity), "%s %s", strings.ToUpper(string(subject.Verb)), what)
	case proto.VerbDelete:
		tr.add(actor(subject.Identity), "DELETE %s%s", what, deleteOptions(tr.t, envelope.GetOptions()))
	case proto.VerbGet, proto.VerbList, proto.VerbWatch, proto.VerbDeleteCollection:
	}
}

func actor(id proto.Identity) string {
	if node, ok := id.NodeName(); ok {
		return node + " kubelet"
	}
	return string(id)
}

func deleteOptions(t testing.TB, data []byte) string {
	var options metav1.DeleteOptions
	if err := options.Unmarshal(data); err != nil {
		t.Error(err)
	}
	text := ""
	if options.GracePeriodSeconds != nil {
		text += fmt.Sprintf(" grace=%d", *options.GracePeriodSeconds)
	}
	if options.Preconditions != nil && options.Preconditions.UID != nil {
		text += " uid"
	}
	return text
}

// addCall adds a CRI call that changes something.
func (tr *Trace) addCall(node string, msg *nats.Msg) {
	method := strings.TrimPrefix(msg.Subject, proto.RootCRI+".")
	text := method
	switch method {
	case "StopContainer":
		text += stopTimeout(tr.t, msg.Data)
	case "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "RemoveContainer", "PullImage":
	default:
		return
	}
	tr.add(node+" runtime", "%s", text)
}

// WatchPods adds to the trace what a watcher of all pods sees from now on, and the
// events that are written, until ctx ends.
func (tr *Trace) WatchPods(ctx context.Context, api *podapi.Client, running *sync.WaitGroup) {
	for resource, note := range map[string]func(watch.Event){"pods": tr.addPodEvent, "events": tr.addEvent} {
		kind, _ := kinds.ByResource(resource)
		list, err := api.List(ctx, podapi.Target{Kind: kind}, metav1.ListOptions{})
		if err != nil {
			tr.t.Fatal(err)
		}
		stream, err := api.Watch(ctx, podapi.Target{Kind: kind}, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			tr.t.Fatal(err)
		}
		running.Go(func() {
			defer stream.Stop()
			for event := range stream.ResultChan() {
				note(event)
			}
		})
	}
}

func (tr *Trace) addPodEvent(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		tr.add(watcher, "%s", event.Type)
		return
	}
	tr.add(watcher, "%-8s %s %s", event.Type, pod.Name, Summary(pod))
}

// Summary describes in one line what a deletion changes of a pod.
func Summary(pod *corev1.Pod) string {
	ready := 0
	for _, status := range pod.Status.ContainerStatuses {
		if status.Ready {
			ready++
		}
	}
	text := fmt.Sprintf("%d/%d %s gen=%d/%d", ready, len(pod.Spec.Containers), podview.View{}.PodStatus(pod),
		pod.Status.ObservedGeneration, pod.Generation)
	if pod.DeletionTimestamp != nil {
		text += fmt.Sprintf(" deadline=%+ds grace=%d", int64(math.Round(time.Until(pod.DeletionTimestamp.Time).Seconds())), *pod.DeletionGracePeriodSeconds)
	}
	if len(pod.Finalizers) > 0 {
		text += " finalizers=" + strings.Join(pod.Finalizers, ",")
	}
	return text
}

func (tr *Trace) addEvent(addEvent watch.Event) {
	if e, ok := addEvent.Object.(*corev1.Event); ok && addEvent.Type != watch.Deleted && e.InvolvedObject.Kind == "Pod" {
		tr.add(strings.TrimPrefix(e.Source.Component, "default-")+" event", "%s %s %s: %s", e.Type, e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

func stopTimeout(t testing.TB, data []byte) string {
	var envelope proto.RuntimeRequest
	var request proto.StopContainerRequest
	if err := protobuf.Unmarshal(data, &envelope); err != nil {
		t.Error(err)
	}
	if err := protobuf.Unmarshal(envelope.GetBody(), &request); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("(%d)", request.GetTimeoutSeconds())
}
