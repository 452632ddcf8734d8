package guarantees_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	invariants "github.com/podfall/podfall/analysis/guarantees"
)

// usage is what a cluster in one process uses.
type usage struct {
	goroutines, descriptors int
	// heap and files are in bytes: memory in use after a collection, and the databases.
	heap, files int64
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %.1f MiB of heap, %.1f MiB of databases",
		u.goroutines, u.descriptors, float64(u.heap)/(1<<20), float64(u.files)/(1<<20))
}

// cycles is how many pods are created before the first measurement, and again before the second.
var cycles = flag.Int("cycles", 1000, "how many pods TestLeaks makes before and after")

// TestLeaks checks L10: a thousand pods that were created and deleted leave nothing behind. The
// baseline is a cluster that has had as many: its database has room for their events, and the
// apiserver remembers as many answers as it can.
func TestLeaks(t *testing.T) {
	const together = 20
	synctest.Test(t, func(t *testing.T) {
		cluster := &keptCluster{T: t, dir: t.TempDir(), history: 1000}
		r := newRun(cluster, 1)
		r.cycle(*cycles, together)
		baseline := measure(t, cluster.dir)
		r.cycle(*cycles, together)
		after := measure(t, cluster.dir)
		t.Logf("before: %v", baseline)
		t.Logf("after %d cycles: %v", *cycles, after)
		for what, used := range map[string]struct{ most, now int64 }{
			"goroutines":         {tenthAbove(int64(baseline.goroutines)), int64(after.goroutines)},
			"descriptors":        {tenthAbove(int64(baseline.descriptors)), int64(after.descriptors)},
			"bytes of heap":      {tenthAbove(baseline.heap + eventMemory), after.heap},
			"bytes of databases": {baseline.files + int64(*cycles)*bytesPerPod, after.files},
		} {
			if used.now > used.most {
				t.Errorf("%s: %d %s, want %d at most", invariants.Title("L10"), used.now, what, used.most)
			}
		}
	})
}

// eventMemory is how many bytes may be used to count equal events: each process that writes events
// remembers the last 4096.
const eventMemory = 16 << 20

// bytesPerPod is how many bytes of the databases a deleted pod may leave: 2.8 KiB were measured. A
// runtime's history of containers is trimmed only later.
const bytesPerPod = 4 << 10

// tenthAbove returns the baseline and a tenth of it.
func tenthAbove(baseline int64) int64 { return baseline + baseline/10 }

// cycle creates so many pods, some at a time, and deletes them, gracefully and by force.
func (r *seededRun) cycle(pods, together int) {
	r.t.Helper()
	api := r.client.CoreV1().Pods("default")
	for made := 0; made < pods; made += together {
		for i := range together {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(2)), Containers: []corev1.Container{{Name: "main", Image: "web"}},
			}}
			if _, err := api.Create(r.t.Context(), pod, metav1.CreateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		for i := range together {
			opts := metav1.DeleteOptions{}
			if i%4 == 0 {
				opts.GracePeriodSeconds = new(int64(0))
			}
			if err := api.Delete(r.t.Context(), fmt.Sprint("web-", i), opts); err != nil {
				r.t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
	}
	list, err := api.List(r.t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		r.t.Fatalf("%d pods are still there, %v", len(list.Items), err)
	}
	time.Sleep(65 * time.Minute) // Events expire an hour after their last write
	if left, err := r.client.CoreV1().Events("").List(r.t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		r.t.Fatalf("%d events are still there, %v", len(left.Items), err)
	}
}

// measure returns what this process uses when it is idle.
func measure(t *testing.T, dir string) usage {
	t.Helper()
	synctest.Wait()
	runtime.GC()
	runtime.GC() // frees what finalizers released
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	u := usage{goroutines: runtime.NumGoroutine(), descriptors: len(descriptors), heap: int64(memory.HeapAlloc)} //nolint:gosec // far below
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".db") {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			u.files += info.Size()
		}
		return err
	})
	if err != nil || u.files == 0 {
		t.Fatalf("databases: %d bytes, %v", u.files, err)
	}
	return u
}
