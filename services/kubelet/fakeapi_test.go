package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// trace is what happened in a test, by who did it, in the order in which each did it.
type trace struct {
	mu    sync.Mutex
	begun time.Time
	lines map[string][]string
}

// begin starts the story: what came before is dropped, and times count from now.
func (t *trace) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun, t.lines = time.Now(), map[string][]string{}
}

func (t *trace) add(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines != nil {
		t.lines[who] = append(t.lines[who], fmt.Sprintf("  %6s  ", "+"+time.Since(t.begun).String())+fmt.Sprintf(format, args...))
	}
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, who := range []string{"watch", "kubelet", "runtime", "events"} {
		fmt.Fprintf(&b, "%s\n", who)
		for _, line := range inOrder(t.lines[who]) {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// inOrder puts what happened to several containers at one instant, which has no order, in
// the order of their names.
func inOrder(lines []string) []string {
	container := func(line string) string {
		for word := range strings.FieldsSeq(line) {
			if slices.Contains([]string{"c", "s1", "s2"}, word) {
				return word
			}
		}
		return ""
	}
	at := func(line string) string { return strings.Fields(line)[0] }
	ordered := slices.Clone(lines)
	for from := 0; from < len(ordered); {
		to := from
		for to < len(ordered) && at(ordered[to]) == at(ordered[from]) && container(ordered[to]) != "" {
			to++
		}
		slices.SortStableFunc(ordered[from:to], func(a, b string) int { return strings.Compare(container(a), container(b)) })
		from = max(to, from+1)
	}
	return ordered
}

// fakeAPI is an apiserver as far as a kubelet notices: objects with revisions, a pod's
// marks and removals, and followers.
type fakeAPI struct {
	trace *trace

	mu       sync.Mutex
	revision int64
	objects  map[string]kinds.Object
	events   []change
	changed  chan struct{}
	cut      bool // the kubelet's link
	relists  int  // how often healed followers had to list again
	refuse   func(verb, key string) error
}

// change is an event of a resource that is followed.
type change struct {
	resource string
	watch.Event
}

func newFakeAPI(t *trace) *fakeAPI {
	return &fakeAPI{trace: t, objects: map[string]kinds.Object{}, changed: make(chan struct{})}
}

func keyFor(t podapi.Target, name string) string {
	return t.Kind.Resource + "/" + t.Namespace + "/" + cmp.Or(t.Name, name)
}

func (a *fakeAPI) gate(verb, key string) error {
	if a.cut {
		return apierrors.NewServiceUnavailable("the link is cut")
	}
	if a.refuse != nil {
		return a.refuse(verb, key)
	}
	return nil
}

// put stores obj under a new revision and tells the follower.
func (a *fakeAPI) put(kind watch.EventType, key string, obj kinds.Object) {
	a.revision++
	obj.SetResourceVersion(strconv.FormatInt(a.revision, 10))
	a.objects[key] = obj
	if kind == watch.Deleted {
		delete(a.objects, key)
	}
	resource, _, _ := strings.Cut(key, "/")
	if !slices.Contains([]string{"pods", "services", "configmaps", "secrets"}, resource) {
		return // nobody follows it
	}
	a.events = append(a.events, change{resource, watch.Event{Type: kind, Object: clone(obj)}})
	if pod, ok := obj.(*corev1.Pod); ok {
		a.trace.add("watch", "%s %s", string(kind)[:1], describe(pod))
	}
	close(a.changed)
	a.changed = make(chan struct{})
}

func clone(obj kinds.Object) kinds.Object {
	copied, _ := obj.DeepCopyObject().(kinds.Object)
	return copied
}

// describe is a pod's line in a trace.
func describe(pod *corev1.Pod) string {
	text := pod.Name
	if pod.DeletionTimestamp != nil {
		text += fmt.Sprintf(" dgps=%d", *pod.DeletionGracePeriodSeconds)
	}
	text += fmt.Sprintf(" gen=%d/%d %s", pod.Generation, pod.Status.ObservedGeneration, cmp.Or(pod.Status.Phase, "-"))
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			text += " ready=" + string(c.Status)
			if c.Reason != "" {
				text += ":" + c.Reason
			}
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		text += " " + c.Name + "="
		switch {
		case c.State.Running != nil:
			text += "running"
		case c.State.Terminated != nil:
			text += fmt.Sprintf("%s:%d", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
		case c.State.Waiting != nil:
			text += c.State.Waiting.Reason
		}
	}
	if pod.Status.Reason != "" {
		text += " reason=" + pod.Status.Reason
	}
	return text
}

func (a *fakeAPI) Create(_ context.Context, t podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyFor(t, obj.GetName())
	if err := a.gate("create", key); err != nil {
		return nil, err
	}
	if a.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(t.Kind.GroupResource(), obj.GetName())
	}
	if event, ok := obj.(*corev1.Event); ok {
		a.trace.add("events", "%s %s: %s", event.Type, event.Reason, event.Message)
	}
	obj = clone(obj)
	if obj.GetUID() == "" {
		obj.SetUID(types.UID("uid-" + obj.GetName()))
	}
	a.put(watch.Added, key, obj)
	return clone(obj), nil
}

func (a *fakeAPI) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyFor(t, "")
	if t.Kind.Resource == "pods" {
		a.trace.add("kubelet", "get %s", t.Name)
	}
	if err := a.gate("get", key); err != nil {
		return nil, err
	}
	obj := a.objects[key]
	if obj == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	return clone(obj), nil
}

func (a *fakeAPI) Update(_ context.Context, t podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyFor(t, "")
	pod, isPod := obj.(*corev1.Pod)
	if isPod {
		a.trace.add("kubelet", "update %s/%s %s", t.Name, t.Subresource, cmp.Or(pod.Status.Phase, "-"))
	}
	if err := a.gate("update", key); err != nil {
		return nil, err
	}
	live := a.objects[key]
	if live == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if live.GetResourceVersion() != obj.GetResourceVersion() || live.GetUID() != obj.GetUID() {
		return nil, apierrors.NewConflict(t.Kind.GroupResource(), t.Name, fmt.Errorf("have %s", live.GetResourceVersion()))
	}
	stored := clone(obj)
	if livePod, ok := live.(*corev1.Pod); ok && isPod { // only /status is updated
		next := livePod.DeepCopy()
		next.Status = *pod.Status.DeepCopy()
		stored = next
	}
	a.put(watch.Modified, key, stored)
	return clone(stored), nil
}

func (a *fakeAPI) Patch(_ context.Context, t podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	obj := a.objects[keyFor(t, "")]
	if obj == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if event, ok := obj.(*corev1.Event); ok {
		count, _, _ := strings.Cut(strings.TrimPrefix(string(patch), `{"count":`), ",")
		a.trace.add("events", "%s %s: %s (x%s)", event.Type, event.Reason, event.Message, count)
	}
	return obj, nil
}

func (a *fakeAPI) Delete(_ context.Context, t podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trace.add("kubelet", "delete %s grace=%d uid=%s", t.Name, *opts.GracePeriodSeconds, *opts.Preconditions.UID)
	if err := a.gate("delete", keyFor(t, "")); err != nil {
		return nil, err
	}
	return a.delete(t, opts)
}

// delete is rounds 1 and 3 as a user or a kubelet asks for them. The caller holds the
// lock.
func (a *fakeAPI) delete(t podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error) {
	key := keyFor(t, "")
	live, ok := a.objects[key].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	if opts.Preconditions != nil && *opts.Preconditions.UID != live.UID {
		return nil, apierrors.NewConflict(t.Kind.GroupResource(), t.Name, fmt.Errorf("UID in precondition: %s", *opts.Preconditions.UID))
	}
	pod := live.DeepCopy()
	grace := *pod.Spec.TerminationGracePeriodSeconds
	if opts.GracePeriodSeconds != nil {
		grace = *opts.GracePeriodSeconds
	}
	if podstate.IsTerminal(pod) {
		grace = 0
	}
	if pod.DeletionTimestamp == nil || grace < *pod.DeletionGracePeriodSeconds {
		if pod.DeletionTimestamp == nil {
			pod.Generation++
		}
		pod.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
		pod.DeletionGracePeriodSeconds = &grace
		a.put(watch.Modified, key, pod)
	}
	if grace == 0 && len(pod.Finalizers) == 0 {
		a.put(watch.Deleted, key, pod.DeepCopy())
	}
	return pod, nil
}

func (a *fakeAPI) Follow(ctx context.Context, t podapi.Target, opts metav1.ListOptions, sink podapi.Sink) error {
	selector, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return err
	}
	name, named := selector.RequiresExactMatch("metadata.name")
	selects := func(resource string, obj kinds.Object) bool {
		return resource == t.Kind.Resource && (t.Namespace == "" || obj.GetNamespace() == t.Namespace) && (!named || obj.GetName() == name)
	}
	next := -1 // of events; -1 before a list
	lists := 0 // how often all had to list again
	for {
		a.mu.Lock()
		changed := a.changed
		switch {
		case a.cut:
		case next < 0 || a.relists > lists:
			var items []kinds.Object
			for _, key := range slices.Sorted(maps.Keys(a.objects)) {
				if resource, _, _ := strings.Cut(key, "/"); selects(resource, a.objects[key]) {
					items = append(items, clone(a.objects[key]))
				}
			}
			sink.Replace(items, "")
			next, lists = len(a.events), a.relists
		default:
			for ; next < len(a.events); next++ {
				obj, _ := a.events[next].Object.(kinds.Object)
				if selects(a.events[next].resource, obj) {
					sink.Apply(watch.Event{Type: a.events[next].Type, Object: clone(obj)})
				}
			}
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
