package verbs_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
	"github.com/podfall/podfall/services/apiserver/watch"
)

// rig is an API over a store of its own. It runs inside a bubble: time stands still
// unless the test sleeps.
type rig struct {
	t     testing.TB
	api   *verbs.API
	store *store.Store
	hold  chan chan struct{} // a commit that finds something in here waits for it
	asked atomic.Int64
	stop  func()
}

func newRig(t testing.TB, change ...func(*verbs.Config, *store.Config)) *rig {
	t.Helper()
	r := &rig{t: t, hold: make(chan chan struct{}, 1)}
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	cfg := verbs.Config{Compat: compat}
	disk := store.Config{Path: filepath.Join(t.TempDir(), "db"), NoSync: true, Failpoint: r.failpoint}
	var hub *watch.Hub
	disk.OnCommit = func(s *store.Snapshot, e []store.Event) { hub.OnCommit(s, e) }
	for _, c := range change {
		c(&cfg, &disk)
	}
	if r.store, err = store.Open(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	hub = watch.New(watch.Config{
		Boot: "b", Store: r.store, Publish: func(string, *proto.Frame) error { return nil },
		Match: func(resource string, obj kinds.Object) (labels.Set, fields.Set) {
			kind, _ := kinds.ByResource(resource)
			return obj.GetLabels(), registry.For(kind, cfg.Compat).Fields(obj)
		},
	})
	cfg.Store, cfg.Hub = r.store, hub
	r.api = verbs.New(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.store.Run(ctx); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	if err := r.api.EnsureNamespaces(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) failpoint(name string) {
	if name != "store.beforeCommit" {
		return
	}
	select {
	case wait := <-r.hold:
		<-wait
	default:
	}
}

// stall makes the next commit wait until release is called.
func (r *rig) stall() (release func()) {
	wait := make(chan struct{})
	r.hold <- wait
	return func() { close(wait) }
}

// call is a request; what is left out has the usual value.
type call struct {
	verb                               proto.Verb
	resource, namespace, name, sub, as string // pods, default
	options                            interface{ Marshal() ([]byte, error) }
	list                               *metav1.ListOptions
	contentType                        string
	body                               any // an object, or text
	operation                          string
	version                            string
}

// result is an answer: obj or status, or the items of a list.
type result struct {
	code     int32
	status   *metav1.Status
	obj      kinds.Object
	items    []kinds.Object
	list     *proto.List
	warnings []string
	parts    int
}

func (r *rig) do(a call) result {
	r.t.Helper()
	req := r.request(a)
	var got result
	err := r.api.Do(r.t.Context(), req, func(_ context.Context, part *proto.Response, _ bool) error {
		got.take(r.t, part)
		return nil
	})
	if err != nil {
		got.status = proto.StatusFrom(err)
		got.code = got.status.Code
	}
	return got
}

func (r *rig) request(a call) verbs.Request {
	r.t.Helper()
	if a.resource == "" {
		a.resource = "pods"
	}
	kind, ok := kinds.ByResource(a.resource)
	if !ok {
		r.t.Fatalf("no kind %s", a.resource)
	}
	if a.version != "" {
		gvk := kind.GroupVersionKind
		gvk.Version = a.version
		if kind, ok = kinds.ByGVK(gvk); !ok {
			r.t.Fatalf("no version %s", a.version)
		}
	}
	if a.namespace == "" && kind.Namespaced {
		a.namespace = "default"
	}
	if a.namespace == "*" {
		a.namespace = ""
	}
	if a.as == "" {
		a.as = "client:test"
	}
	if a.operation == "" {
		a.operation = "op-" + strconv.FormatInt(r.asked.Add(1), 10)
	}
	envelope := &proto.Request{Version: proto.Version, Operation: a.operation, ContentType: a.contentType}
	if a.options != nil {
		envelope.Options = must(a.options.Marshal())
	}
	if a.list != nil {
		envelope.ListOptions = must(a.list.Marshal())
	}
	switch body := a.body.(type) {
	case string:
		envelope.Body = []byte(body)
	case kinds.Object:
		envelope.Body, envelope.ContentType = must(kinds.Encode(body)), kinds.ContentTypeProtobuf
	}
	return verbs.Request{
		Attributes: admission.Attributes{
			Identity: proto.Identity(a.as), Verb: a.verb, Kind: kind, Subresource: a.sub, Namespace: a.namespace, Name: a.name,
		},
		Envelope: envelope, Now: clock.Clock{}.Now(),
	}
}

func (got *result) take(t testing.TB, part *proto.Response) {
	got.code = part.GetCode()
	got.parts++
	got.warnings = append(got.warnings, part.GetWarnings()...)
	if item := part.GetItem(); item != nil {
		switch obj := decode(t, item).(type) {
		case *metav1.Status:
			got.status = obj
		case kinds.Object:
			got.obj = obj
		}
	}
	if list := part.GetList(); list != nil {
		if got.list == nil {
			got.list = list
		}
		for _, item := range list.GetItems() {
			obj, _ := decode(t, item).(kinds.Object)
			got.items = append(got.items, obj)
		}
	}
}

func decode(t testing.TB, item *proto.Item) runtime.Object {
	t.Helper()
	decoded, err := kinds.DecodeAny(item.GetObject())
	if err != nil {
		t.Fatal(err)
	}
	if obj, ok := decoded.(kinds.Object); ok {
		if rv := obj.GetResourceVersion(); rv != "" {
			t.Errorf("%s carries resourceVersion %s inside its encoding", obj.GetName(), rv)
		}
		if item.GetRevision() != 0 {
			obj.SetResourceVersion(strconv.FormatUint(item.GetRevision(), 10))
		}
	}
	return decoded
}

// ok is do, which must succeed.
func (r *rig) ok(a call) result {
	r.t.Helper()
	got := r.do(a)
	if got.code >= 300 || got.code < 200 {
		r.t.Fatalf("%s %s %s: %d %s", a.verb, a.resource, a.name, got.code, got.message())
	}
	return got
}

func (got result) message() string {
	if got.status == nil {
		return ""
	}
	return got.status.Message
}

// refused checks that a request fails, with this code and text, and changes nothing.
func (r *rig) refused(a call, code int32, message string) {
	r.t.Helper()
	before := r.store.Snapshot().Revision()
	got := r.do(a)
	if got.code != code || got.message() != message {
		r.t.Errorf("%s %s %s/%s:\n got %d %s\nwant %d %s", a.verb, a.resource, a.name, a.sub, got.code, got.message(), code, message)
	}
	if after := r.store.Snapshot().Revision(); after != before {
		r.t.Errorf("the refused %s moved the revision from %d to %d", a.verb, before, after)
	}
}

func (r *rig) revision() int64 { return r.store.Snapshot().Revision() }

func (r *rig) get(name string) *corev1.Pod {
	record := r.store.Snapshot().Get(store.Key{Resource: "pods", Namespace: "default", Name: name})
	if record == nil {
		return nil
	}
	pod, _ := record.Object.(*corev1.Pod)
	return pod
}

// since shows the events after a revision, a line each.
func (r *rig) since(revision int64) string {
	r.t.Helper()
	events, err := r.store.Since(revision)
	if err != nil {
		r.t.Fatal(err)
	}
	var lines []string
	for _, event := range events {
		lines = append(lines, event.Type.String()+" "+describe(event.Record.Object))
	}
	return strings.Join(lines, "\n")
}

// describe shows what a deletion changes: seconds from now to the deadline, grace in
// force, generation, finalizers.
func describe(obj kinds.Object) string {
	if obj == nil {
		return "nothing"
	}
	text := obj.GetName()
	if at := obj.GetDeletionTimestamp(); at != nil {
		text += fmt.Sprintf(" %+ds", int(at.Sub(clock.Clock{}.Now().Truncate(time.Second)).Seconds()))
	}
	if g := obj.GetDeletionGracePeriodSeconds(); g != nil {
		text += fmt.Sprintf(" grace=%d", *g)
	}
	text += fmt.Sprintf(" gen=%d", obj.GetGeneration())
	if f := obj.GetFinalizers(); len(f) > 0 {
		text += fmt.Sprint(" ", f)
	}
	return text
}

// equal compares texts.
func equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func parseRevision(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }

func podNamed(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeName:   "n1",
			Containers: []corev1.Container{{Name: "main", Image: "scripted"}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func unbound(p *corev1.Pod) { p.Spec.NodeName = "" }

func held(finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Finalizers = finalizers }
}

func graceOf(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// pod creates one.
func (r *rig) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	r.t.Helper()
	r.ok(call{verb: proto.VerbCreate, body: podNamed(name, change...)})
	return r.get(name)
}

// phase writes a pod's status, as its kubelet does.
func (r *rig) phase(name string, phase corev1.PodPhase) {
	r.t.Helper()
	pod := r.get(name).DeepCopy()
	pod.Status.Phase = phase
	r.ok(call{verb: proto.VerbUpdate, name: name, sub: "status", body: pod})
}

func grace(seconds int64) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: &seconds}
}

// notOrphaning asks the old way for dependents not to be orphaned.
func notOrphaning(opts *metav1.DeleteOptions) *metav1.DeleteOptions {
	opts.OrphanDependents = new(false) //nolint:staticcheck // API-06 is about this field
	return opts
}

func deletePod(name string, opts *metav1.DeleteOptions) call {
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	return call{verb: proto.VerbDelete, name: name, options: opts}
}
