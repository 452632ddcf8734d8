package customers

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/podfall/podfall/podfalltest"
)

const manyPods = 1000

// informerModes are the two ways in which client-go's informers start.
func informerModes() map[string]bool {
	return map[string]bool{"watch-list": true, "list and watch": false}
}

// TestInformersMissNothing runs a shared informer on 1,000 pods that change continuously, while its
// connections break and the apiserver crashes. The handlers must see every change, once, in order.
func TestInformersMissNothing(t *testing.T) {
	for name, streaming := range informerModes() {
		t.Run(name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
			c, a := startCrowd(t)
			must(t, a.write(t.Context(), manyPods, 1, 1))
			line := &flakyDialer{}
			w := startInformer(t, line, c.Config(), a.namespace)
			awaitAgreement(t, "at first", a, w)

			since := a.record.lengths()
			// Client-go lists again if a watch broke before its first event.
			broken := a.storeRevision(t)
			got := func() bool { return w.newest.Load() > broken }
			jerk := func() { line.breakAll(); broken = a.storeRevision(t) }
			for seed := uint64(4); line.countDials() < 3; seed++ {
				if seed > 20 {
					t.Fatalf("the informer has dialled %d times: its connections were not broken", line.countDials())
				}
				disturbWhile(t, func() error { return a.write(t.Context(), manyPods, 4, seed) }, got, jerk)
			}
			awaitAgreement(t, "after broken connections", a, w)
			c.Crash("apiserver")
			c.Restart("apiserver")
			must(t, a.write(t.Context(), manyPods, 1, 3))
			awaitAgreement(t, "after the apiserver crashed", a, w)
			w.awaitComplete(t, a.record.all(), since)
			w.check(t, a.record.all())
			if n := w.lists.Load(); n != 1 {
				t.Errorf("the informer has listed %d times, though the cluster remembered what it had missed", n)
			}
		})
	}
}

// TestInformersRelist lets the cluster forget what an informer has missed (410). The informer lists
// again, has the current objects, and reports nothing false.
func TestInformersRelist(t *testing.T) {
	for name, streaming := range informerModes() {
		t.Run(name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
			c, a := startCrowd(t, podfalltest.History(100))
			must(t, a.write(t.Context(), manyPods, 1, 1))
			line := &flakyDialer{}
			w := startInformer(t, line, c.Config(), a.namespace)
			awaitAgreement(t, "at first", a, w)
			for seed := range uint64(3) {
				line.disconnect()
				must(t, a.write(t.Context(), manyPods, 1, 2+seed))
				line.reconnect()
				awaitAgreement(t, "after its revision was forgotten", a, w)
			}
			w.check(t, a.record.all())
			if n := w.lists.Load(); n < 4 {
				t.Errorf("the informer has listed %d times: its revision was not forgotten", n)
			}
		})
	}
}

// startCrowd starts a cluster that does not schedule pods, and the author of all changes.
func startCrowd(t *testing.T, options ...podfalltest.Option) (*podfalltest.Cluster, *author) {
	t.Helper()
	c := podfalltest.Start(t, append(options, podfalltest.Controllers("*", "-scheduler"))...)
	a := &author{client: newClient(t, c), namespace: "crowd"}
	makeNamespace(t, a.client, a.namespace)
	return c, a
}

// storeRevision returns the store's current revision; later changes have higher ones.
func (a *author) storeRevision(t *testing.T) uint64 {
	t.Helper()
	page, err := a.client.CoreV1().Pods(a.namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	return parseRevision(page.ResourceVersion)
}

// recordingHandler records the calls of an informer's handlers.
type recordingHandler struct {
	store cache.Store
	lists *atomic.Int64 // how often it listed all objects
	// newest is the highest object revision seen by the handlers.
	newest  atomic.Uint64
	mu      sync.Mutex
	changes map[string][]change
	wrong   []string
}

// startInformer starts an informer on the pods of a namespace.
func startInformer(t *testing.T, line *flakyDialer, config *rest.Config, namespace string) *recordingHandler {
	t.Helper()
	w := &recordingHandler{changes: make(map[string][]change), lists: new(atomic.Int64)}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			query := r.URL.Query()
			if query.Get("continue") == "" && (query.Get("watch") == "" || query.Get("sendInitialEvents") == "true") {
				w.lists.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	client, err := line.newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	w.store = pods.GetStore()
	if _, err := pods.AddEventHandler(w); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	if !cache.WaitForCacheSync(t.Context().Done(), pods.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// OnAdd implements [cache.ResourceEventHandler].
func (w *recordingHandler) OnAdd(obj any, _ bool) {
	pod, ok := obj.(*corev1.Pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		w.wrong = append(w.wrong, fmt.Sprintf("added a %T", obj))
		return
	}
	w.newest.Store(max(w.newest.Load(), parseRevision(pod.ResourceVersion)))
	if past := w.changes[pod.Name]; len(past) > 0 && !past[len(past)-1].removed {
		w.wrong = append(w.wrong, fmt.Sprintf("%s was added twice", pod.Name))
	}
	w.changes[pod.Name] = append(w.changes[pod.Name], change{uid: pod.UID, revision: pod.ResourceVersion})
}

// OnUpdate implements [cache.ResourceEventHandler].
func (w *recordingHandler) OnUpdate(before, after any) {
	was, _ := before.(*corev1.Pod)
	pod, ok := after.(*corev1.Pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !ok || was == nil:
		w.wrong = append(w.wrong, fmt.Sprintf("updated a %T to a %T", before, after))
	case was.ResourceVersion == pod.ResourceVersion:
		// A new list updates every object; handlers compare revisions.
	case pod.DeletionTimestamp != nil:
		// The first half of a delete is a separate change, with a revision that no response contains.
	case parseRevision(was.ResourceVersion) > parseRevision(pod.ResourceVersion):
		w.wrong = append(w.wrong, fmt.Sprintf("%s went back from %s to %s", pod.Name, was.ResourceVersion, pod.ResourceVersion))
	default:
		w.newest.Store(max(w.newest.Load(), parseRevision(pod.ResourceVersion)))
		w.changes[pod.Name] = append(w.changes[pod.Name], change{uid: pod.UID, revision: pod.ResourceVersion})
	}
}

// OnDelete implements [cache.ResourceEventHandler].
func (w *recordingHandler) OnDelete(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		w.wrong = append(w.wrong, fmt.Sprintf("deleted a %T", obj))
		return
	}
	w.changes[pod.Name] = append(w.changes[pod.Name], change{uid: pod.UID, removed: true})
}

func parseRevision(revision string) uint64 {
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// storedRevisions returns the revision of each pod in the informer's store.
func (w *recordingHandler) storedRevisions() map[string]string {
	revisions := make(map[string]string)
	for _, obj := range w.store.List() {
		if pod, ok := obj.(*corev1.Pod); ok {
			revisions[pod.Name] = pod.ResourceVersion
		}
	}
	return revisions
}

// awaitAgreement waits until the informer's store matches the record.
func awaitAgreement(t *testing.T, when string, a *author, w *recordingHandler) {
	t.Helper()
	want := a.record.storedRevisions()
	eventually(t, when+" the informer has what there is", func() bool { return maps.Equal(w.storedRevisions(), want) })
}

// check compares the handlers' calls with the record: nothing is invented, out of order, or
// repeated.
func (w *recordingHandler) check(t *testing.T, recorded map[string][]change) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrong := range w.wrong {
		t.Fatal(wrong)
	}
	for name, got := range w.changes {
		at := 0
		for _, c := range got {
			next := slices.Index(recorded[name][at:], c)
			if next < 0 {
				t.Fatalf("%s: the informer was told of %+v, which did not happen, or not then:\n%+v", name, c, recorded[name])
			}
			at += next + 1
		}
	}
}

// awaitComplete waits until the handlers, which run after the store, have seen every change after
// the first ones.
func (w *recordingHandler) awaitComplete(t *testing.T, recorded map[string][]change, since map[string]int) {
	t.Helper()
	missed := ""
	limit := time.Now().Add(conditionTimeout)
	pollUntil(func() bool {
		missed = w.missed(recorded, since)
		return missed == "" || time.Now().After(limit)
	})
	if missed != "" {
		t.Error(missed)
	}
}

// missed describes for one pod which changes the handlers have not seen.
func (w *recordingHandler) missed(recorded map[string][]change, since map[string]int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, changes := range recorded {
		want := changes[since[name]:]
		got := w.changes[name]
		if !slices.Equal(got[max(0, len(got)-len(want)):], want) {
			return fmt.Sprintf("%s: the informer was told of\n%+v\nbut this happened:\n%+v", name, got, want)
		}
	}
	return ""
}
