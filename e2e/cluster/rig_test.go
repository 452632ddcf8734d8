// Package cluster tests the controllers together when a node, a namespace or an owner is deleted.
// Time is virtual, and exact.
package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
)

// rig is a cluster, and what the test has noted about it.
type rig struct {
	*testing.T
	*stage.Cluster
	valve    *view.EventGate // controls what the controllers see
	began    time.Time
	watchers sync.WaitGroup

	mu    sync.Mutex
	noted []note
}

// note is one noted change, and its time since the clock was set.
type note struct {
	at   time.Duration
	text string
}

// play runs a test with a cluster of these controllers.
func play(t *testing.T, cfg stage.Config, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Valve = view.NewEventGate(clock.Clock{})
		r := &rig{T: t, valve: cfg.Valve, Cluster: stage.New(t, cfg)}
		t.Cleanup(r.watchers.Wait)
		test(r)
	})
}

func (r *rig) target(what string) podapi.Target {
	r.Helper()
	resource, path, _ := strings.Cut(what, " ")
	resource, sub, _ := strings.Cut(resource, "/")
	kind, ok := kinds.ByResource(resource)
	if !ok {
		r.Fatalf("no kind %s", resource)
	}
	target := podapi.Target{Kind: kind, Subresource: sub, Name: path}
	if kind.Namespaced {
		target.Namespace = "default"
		if namespace, name, found := strings.Cut(path, "/"); found {
			target.Namespace, target.Name = namespace, name
		}
	}
	return target
}

// create stores an object of a kind: create("pods", pod).
func (r *rig) create(what string, obj kinds.Object) kinds.Object {
	r.Helper()
	target := r.target(what)
	if target.Kind.Namespaced && obj.GetNamespace() != "" {
		target.Namespace = obj.GetNamespace()
	}
	stored, err := r.API().Create(r.Context(), target, obj, metav1.CreateOptions{})
	if err != nil {
		r.Fatalf("create %s %s: %v", what, obj.GetName(), err)
	}
	return stored
}

// get reads an object: get[*corev1.Pod](r, "pods web"); nil if there is none.
func get[T kinds.Object](r *rig, what string) T {
	r.Helper()
	var none T
	obj, err := r.API().Get(r.Context(), r.target(what), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return none
	}
	typed, ok := obj.(T)
	if err != nil || !ok {
		r.Fatalf("get %s: %T %v", what, obj, err)
	}
	return typed
}

// list returns the objects of a kind in a namespace: list("pods shop/").
func (r *rig) list(what string) []kinds.Object {
	r.Helper()
	page, err := r.API().List(r.Context(), r.target(what), metav1.ListOptions{})
	if err != nil {
		r.Fatalf("list %s: %v", what, err)
	}
	return page.Items
}

func (r *rig) patch(what string, change any) {
	r.Helper()
	data, err := json.Marshal(change)
	if err == nil {
		_, err = r.API().Patch(r.Context(), r.target(what), types.MergePatchType, data, metav1.PatchOptions{})
	}
	if err != nil {
		r.Fatalf("patch %s: %v", what, err)
	}
}

// cordon returns once the scheduler has seen the change, so that the next binding goes elsewhere.
func (r *rig) cordon(node string) {
	r.Helper()
	r.patch("nodes "+node, map[string]any{"spec": map[string]any{"unschedulable": true}})
	r.Settle()
}

func (r *rig) delete(what string, options metav1.DeleteOptions) {
	r.Helper()
	if _, err := r.API().Delete(r.Context(), r.target(what), options); err != nil {
		r.Fatalf("delete %s: %v", what, err)
	}
}

// until waits for a condition for at most a minute, and returns how long it took.
func (r *rig) until(what string, holds func() bool) time.Duration {
	r.Helper()
	const limit = time.Minute
	began := time.Now()
	for time.Since(began) < limit {
		if r.Settle(); holds() {
			return time.Since(began)
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.Fatalf("not after %v: %s", limit, what)
	return 0
}

// resetNotes makes the current time the zero of notes, and drops earlier notes.
func (r *rig) resetNotes() {
	time.Sleep(time.Second)
	r.Settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.noted = time.Now(), nil
}

var anyUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func (r *rig) addNote(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := note{time.Since(r.began).Round(100 * time.Millisecond), anyUID.ReplaceAllString(fmt.Sprintf(format, args...), "UID")}
	if !slices.Contains(r.noted, one) {
		r.noted = append(r.noted, one)
	}
}

// watch notes the text of describe for each change of a kind from now on, unless it is empty.
func (r *rig) watch(resource string, tell func(kinds.Object, watch.EventType) string) {
	target := r.target(resource + " /")
	target.Namespace, target.Name = "", ""
	sink := &noter{rig: r, tell: tell, last: map[types.UID]string{}}
	r.watchers.Go(func() { _ = r.API().Follow(r.Context(), target, metav1.ListOptions{}, sink) })
	r.Settle()
	time.Sleep(50 * time.Millisecond)
}

// noter is a sink that notes changes.
type noter struct {
	rig  *rig
	tell func(kinds.Object, watch.EventType) string
	last map[types.UID]string
	full bool
}

// Replace implements podapi.Sink.
func (n *noter) Replace(items []kinds.Object, _ string) {
	for _, item := range items {
		if n.full {
			n.Apply(watch.Event{Type: watch.Modified, Object: item})
		}
		n.last[item.GetUID()] = n.tell(item, watch.Modified)
	}
	n.full = true
}

// Apply implements podapi.Sink.
func (n *noter) Apply(event watch.Event) {
	obj, ok := event.Object.(kinds.Object)
	if !ok {
		return
	}
	if text := n.tell(obj, event.Type); text != "" && n.last[obj.GetUID()] != text {
		n.last[obj.GetUID()] = text
		n.rig.addNote("%s", text)
	}
}

// noteEvents notes the events with the given reasons.
func (r *rig) noteEvents(reasons ...string) {
	r.watch("events", func(obj kinds.Object, kind watch.EventType) string {
		event, ok := obj.(*corev1.Event)
		if !ok || kind == watch.Deleted || !slices.Contains(reasons, event.Reason) {
			return ""
		}
		return fmt.Sprintf("event %s %s/%s %s: %s (%s)", event.Type, event.InvolvedObject.Kind, event.InvolvedObject.Name,
			event.Reason, event.Message, event.Source.Component)
	})
}

// wantNotes compares the notes since resetNotes. Notes of the same tenth of a second are sorted
// alphabetically, because goroutines of one instant have no order. A line that begins with "? " may
// be missing: an intermediate state of one instant need not be observed.
func (r *rig) wantNotes(want ...string) {
	r.Helper()
	r.Settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.noted, func(a, b note) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text)) })
	var texts []string
	for _, one := range r.noted {
		texts = append(texts, fmt.Sprintf("%-7s %s", one.at, one.text))
	}
	var wanting []string
	for _, one := range want {
		text, may := strings.CutPrefix(one, "? ")
		if !may || slices.Contains(texts, text) {
			wanting = append(wanting, text)
		}
	}
	if got, wanted := strings.Join(texts, "\n"), strings.Join(wanting, "\n"); got != wanted {
		r.Errorf("noted\n%s\nwant\n%s", got, wanted)
	}
	r.noted = nil
}

// pod returns a pod that exits 2 s after SIGTERM, bound to node unless that is empty.
func pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}
