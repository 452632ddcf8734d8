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

// modes are the two ways in which client-go's informers begin.
func modes() map[string]bool { return map[string]bool{"watch-list": true, "list and watch": false} }

// TestInformersMissNothing runs a shared informer over 1,000 pods that change all the
// time, while its connections break, and through a crash of the apiserver. What its
// handlers are told must be what happened: every change, once, in order.
func TestInformersMissNothing(t *testing.T) {
	for name, streaming := range modes() {
		t.Run(name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
			c, a := crowd(t)
			must(t, a.write(t.Context(), manyPods, 1, 1))
			line := &cable{}
			w := inform(t, line, c.Config(), a.namespace)
			agree(t, "at first", a, w)

			since := a.record.lengths()
			// Client-go lists anew after a watch that has told nothing before it broke.
			broken := a.revision(t)
			told := func() bool { return w.newest.Load() > broken }
			jerk := func() { line.jerk(); broken = a.revision(t) }
			for seed := uint64(4); line.dialled() < 3; seed++ {
				if seed > 20 {
					t.Fatalf("the informer has dialled %d times: its connections were not broken", line.dialled())
				}
				during(t, func() error { return a.write(t.Context(), manyPods, 4, seed) }, told, jerk)
			}
			agree(t, "after broken connections", a, w)
			c.Crash("apiserver")
			c.Restart("apiserver")
			must(t, a.write(t.Context(), manyPods, 1, 3))
			agree(t, "after the apiserver crashed", a, w)
			w.complete(t, a.record.all(), since)
			w.check(t, a.record.all())
			if n := w.lists.Load(); n != 1 {
				t.Errorf("the informer has listed %d times, though the cluster remembered what it had missed", n)
			}
		})
	}
}

// TestInformersStartAgain lets the cluster forget what an informer has missed (410): it
// lists again, and has then what there is, without having been told what was not so.
func TestInformersStartAgain(t *testing.T) {
	for name, streaming := range modes() {
		t.Run(name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
			c, a := crowd(t, podfalltest.History(100))
			must(t, a.write(t.Context(), manyPods, 1, 1))
			line := &cable{}
			w := inform(t, line, c.Config(), a.namespace)
			agree(t, "at first", a, w)
			for seed := range uint64(3) {
				line.pull()
				must(t, a.write(t.Context(), manyPods, 1, 2+seed))
				line.plug()
				agree(t, "after its revision was forgotten", a, w)
			}
			w.check(t, a.record.all())
			if n := w.lists.Load(); n < 4 {
				t.Errorf("the informer has listed %d times: its revision was not forgotten", n)
			}
		})
	}
}

// crowd is a cluster that leaves pods alone, and who changes them.
func crowd(t *testing.T, options ...podfalltest.Option) (*podfalltest.Cluster, *author) {
	t.Helper()
	c := podfalltest.Start(t, append(options, podfalltest.Controllers("*", "-scheduler"))...)
	a := &author{client: clientFor(t, c), namespace: "crowd"}
	makeNamespace(t, a.client, a.namespace)
	return c, a
}

// revision is that of the store now: what is of a later one comes later.
func (a *author) revision(t *testing.T) uint64 {
	t.Helper()
	page, err := a.client.CoreV1().Pods(a.namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	return number(page.ResourceVersion)
}

// witness is what the handlers of an informer were told.
type witness struct {
	store cache.Store
	lists *atomic.Int64 // how often it asked for everything
	// newest is the greatest revision of an object that they were told of.
	newest atomic.Uint64
	mu     sync.Mutex
	told   map[string][]change
	wrong  []string
}

// inform starts an informer on the pods of a namespace.
func inform(t *testing.T, line *cable, config *rest.Config, namespace string) *witness {
	t.Helper()
	w := &witness{told: make(map[string][]change), lists: new(atomic.Int64)}
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
	client, err := line.through(config)
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
func (w *witness) OnAdd(obj any, _ bool) {
	pod, ok := obj.(*corev1.Pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !ok {
		w.wrong = append(w.wrong, fmt.Sprintf("added a %T", obj))
		return
	}
	w.newest.Store(max(w.newest.Load(), number(pod.ResourceVersion)))
	if past := w.told[pod.Name]; len(past) > 0 && !past[len(past)-1].removed {
		w.wrong = append(w.wrong, fmt.Sprintf("%s was added twice", pod.Name))
	}
	w.told[pod.Name] = append(w.told[pod.Name], change{uid: pod.UID, revision: pod.ResourceVersion})
}

// OnUpdate implements [cache.ResourceEventHandler].
func (w *witness) OnUpdate(before, after any) {
	was, _ := before.(*corev1.Pod)
	pod, ok := after.(*corev1.Pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !ok || was == nil:
		w.wrong = append(w.wrong, fmt.Sprintf("updated a %T to a %T", before, after))
	case was.ResourceVersion == pod.ResourceVersion:
		// A new list makes an update of every object; whoever minds compares revisions.
	case pod.DeletionTimestamp != nil:
		// The first half of a delete: a change of its own, with a revision that no answer tells.
	case number(was.ResourceVersion) > number(pod.ResourceVersion):
		w.wrong = append(w.wrong, fmt.Sprintf("%s went back from %s to %s", pod.Name, was.ResourceVersion, pod.ResourceVersion))
	default:
		w.newest.Store(max(w.newest.Load(), number(pod.ResourceVersion)))
		w.told[pod.Name] = append(w.told[pod.Name], change{uid: pod.UID, revision: pod.ResourceVersion})
	}
}

// OnDelete implements [cache.ResourceEventHandler].
func (w *witness) OnDelete(obj any) {
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
	w.told[pod.Name] = append(w.told[pod.Name], change{uid: pod.UID, removed: true})
}

func number(revision string) uint64 {
	n, err := strconv.ParseUint(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// present is the revision of each pod in the informer's store.
func (w *witness) present() map[string]string {
	revisions := make(map[string]string)
	for _, obj := range w.store.List() {
		if pod, ok := obj.(*corev1.Pod); ok {
			revisions[pod.Name] = pod.ResourceVersion
		}
	}
	return revisions
}

// agree waits until the informer's store is what the record says is there.
func agree(t *testing.T, when string, a *author, w *witness) {
	t.Helper()
	want := a.record.present()
	eventually(t, when+" the informer has what there is", func() bool { return maps.Equal(w.present(), want) })
}

// check holds what the handlers were told against the record: nothing is made up, nothing
// is out of order, and nothing comes twice.
func (w *witness) check(t *testing.T, recorded map[string][]change) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wrong := range w.wrong {
		t.Fatal(wrong)
	}
	for name, told := range w.told {
		at := 0
		for _, c := range told {
			next := slices.Index(recorded[name][at:], c)
			if next < 0 {
				t.Fatalf("%s: the informer was told of %+v, which did not happen, or not then:\n%+v", name, c, recorded[name])
			}
			at += next + 1
		}
	}
}

// complete waits until the handlers, which come after the store, have been told of every
// change after the first ones.
func (w *witness) complete(t *testing.T, recorded map[string][]change, since map[string]int) {
	t.Helper()
	missed := ""
	limit := time.Now().Add(patience)
	every(func() bool {
		missed = w.missed(recorded, since)
		return missed == "" || time.Now().After(limit)
	})
	if missed != "" {
		t.Error(missed)
	}
}

// missed says of one pod what the handlers were not told.
func (w *witness) missed(recorded map[string][]change, since map[string]int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, changes := range recorded {
		want := changes[since[name]:]
		told := w.told[name]
		if !slices.Equal(told[max(0, len(told)-len(want)):], want) {
			return fmt.Sprintf("%s: the informer was told of\n%+v\nbut this happened:\n%+v", name, told, want)
		}
	}
	return ""
}
