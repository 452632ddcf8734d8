package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// fakeAPI lets a test speak to the sinks, and notes what the scheduler asks for.
type fakeAPI struct {
	control.API // for what the scheduler does not ask
	mu          sync.Mutex
	sinks       map[string]podapi.Sink
	bound       []string
	patched     []string
	refuse      []error // of the next bindings
	hang        bool    // every patch waits for its context
}

func (f *fakeAPI) Follow(ctx context.Context, target podapi.Target, _ metav1.ListOptions, sink podapi.Sink) error {
	f.mu.Lock()
	f.sinks[target.Kind.Resource] = sink
	f.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeAPI) Create(_ context.Context, target podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.refuse) > 0 {
		err := f.refuse[0]
		f.refuse = f.refuse[1:]
		return nil, err
	}
	if binding, ok := obj.(*corev1.Binding); ok {
		f.bound = append(f.bound, target.Name+" on "+binding.Target.Name)
	}
	return obj, nil
}

func (f *fakeAPI) Patch(ctx context.Context, target podapi.Target, _ types.PatchType, _ []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	f.mu.Lock()
	f.patched = append(f.patched, target.Name)
	hang := f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
	}
	return nil, ctx.Err()
}

func (f *fakeAPI) Delete(context.Context, podapi.Target, metav1.DeleteOptions) (runtime.Object, error) {
	return nil, nil
}

// Event implements control.Recorder.
func (f *fakeAPI) Event(kinds.Object, string, string, string) {}

func (f *fakeAPI) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.bound, want) {
		t.Errorf("bound %q, want %q", f.bound, want)
	}
}

// startScheduler starts a scheduler in the bubble and ends it with the test.
func startScheduler(t *testing.T, api *fakeAPI) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	views := view.NewSet(api, nil)
	controller := New(control.Base{
		API: api, Views: views, Log: slog.New(slog.DiscardHandler), Events: func(string) control.Recorder { return api },
	})
	var copies sync.WaitGroup
	copies.Go(func() { _ = views.Run(ctx) })
	go func() { ended <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		copies.Wait()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the scheduler ended with %v", err)
		}
	})
	synctest.Wait()
}

func added(obj kinds.Object) watch.Event { return watch.Event{Type: watch.Added, Object: obj} }

func TestControllerBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{sinks: map[string]podapi.Sink{}}
		startScheduler(t, api)
		api.sinks["nodes"].Replace([]kinds.Object{node("n1"), node("n2")}, "1")
		api.sinks["pods"].Replace([]kinds.Object{pod("bound", func(p *corev1.Pod) { p.Spec.NodeName = "n1" })}, "1")
		api.sinks["pods"].Apply(added(pod("a")))
		api.expect(t, "a on n2")

		// Bound by someone else meanwhile (API-80): dropped. A failure that says nothing
		// of the pod: decided about again.
		conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "b", errors.New("assigned"))
		api.mu.Lock()
		api.refuse = []error{conflict}
		api.mu.Unlock()
		api.sinks["pods"].Apply(added(pod("b")))
		api.expect(t, "a on n2")
		api.mu.Lock()
		api.refuse = []error{apierrors.NewTimeoutError("away", 1)}
		api.mu.Unlock()
		api.sinks["pods"].Apply(added(pod("c")))
		api.expect(t, "a on n2", "c on n1")
	})
}

// TestBindsDuringSlowPatch has an apiserver that does not answer the patch of an unschedulable
// pod's status. Another pod is still bound.
func TestBindsDuringSlowPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &fakeAPI{sinks: map[string]podapi.Sink{}, hang: true}
		startScheduler(t, api)
		api.sinks["nodes"].Replace([]kinds.Object{node("n1")}, "1")
		api.sinks["pods"].Apply(added(pod("big", requests("64", "1Gi"))))
		api.sinks["pods"].Apply(added(pod("small")))
		api.expect(t, "small on n1")
		if len(api.patched) != 1 || api.patched[0] != "big" {
			t.Errorf("patched %q, want big told why it is pending", api.patched)
		}
		// Room comes, and the waiting pod is decided about again.
		api.sinks["nodes"].Apply(watch.Event{Type: watch.Modified, Object: node("n1", func(n *corev1.Node) {
			n.ResourceVersion = "2"
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("100")
		})})
		api.expect(t, "small on n1", "big on n1")
	})
}
