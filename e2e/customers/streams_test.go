package customers

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// TestWatcherSeesEveryChangeOnce watches pods with client-go's RetryWatcher, which resumes from the
// last revision when a stream breaks. Through broken connections and a crash of the apiserver, each
// change must arrive once and in order.
func TestWatcherSeesEveryChangeOnce(t *testing.T) {
	t.Parallel()
	const pods = 100
	c, a := startCrowd(t)
	line := &flakyDialer{}
	client, err := line.newClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	before, err := client.CoreV1().Pods(a.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(t.Context(), before.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(a.namespace).Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	disturbWhile(t, func() error { return a.write(t.Context(), pods, 20, 1) }, func() bool { return true }, line.breakAll)
	c.Crash("apiserver")
	c.Restart("apiserver")
	if err := a.write(t.Context(), pods, 2, 2); err != nil {
		t.Fatal(err)
	}
	readEvents(t, watcher, a.record.all())
}

// readEvents reads as many events as are recorded, and compares them.
func readEvents(t *testing.T, watcher watch.Interface, recorded map[string][]change) {
	t.Helper()
	left := 0
	for _, changes := range recorded {
		left += len(changes)
	}
	seen := map[string][]change{}
	revision := uint64(0)
	ctx, cancel := context.WithTimeout(t.Context(), conditionTimeout)
	defer cancel()
	for left > 0 {
		select {
		case event := <-watcher.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				t.Fatalf("%s of a %T: %+v", event.Type, event.Object, event.Object)
			}
			if parseRevision(pod.ResourceVersion) <= revision {
				t.Errorf("%s of %s at revision %s, after %d", event.Type, pod.Name, pod.ResourceVersion, revision)
			}
			revision = parseRevision(pod.ResourceVersion)
			if event.Type == watch.Modified && pod.DeletionTimestamp != nil {
				continue // the first half of a delete, which the record omits
			}
			left--
			seen[pod.Name] = append(seen[pod.Name], toChange(event.Type, pod))
		case <-ctx.Done():
			t.Fatalf("%d events have not come in %v", left, conditionTimeout)
		}
	}
	for name, changes := range recorded {
		if !slices.Equal(seen[name], changes) {
			t.Fatalf("%s: seen\n%+v\nhappened\n%+v", name, seen[name], changes)
		}
	}
}

func toChange(kind watch.EventType, pod *corev1.Pod) change {
	if kind == watch.Deleted {
		return change{uid: pod.UID, removed: true}
	}
	return change{uid: pod.UID, revision: pod.ResourceVersion}
}
