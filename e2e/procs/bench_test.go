package procs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
)

const (
	herd    = 1000 // pods per measurement
	writers = 64
)

// BenchmarkLifecycle runs 1,000 pods on ten nodes in separate processes, with 64 writers and the
// kubelets' fastest timing: create to Running, graceful delete to gone with every round, create
// again, forced delete.
func BenchmarkLifecycle(b *testing.B) {
	c := up(b, "--nodes", "10", "--timing", "fastest")
	api := c.dial()
	view := newPodCounter(b, api)
	var create, graceful, forced time.Duration
	before := c.cpu()
	for b.Loop() {
		create += view.timeUntil("Running", func() { forEachPod(b, "create", api.create) })
		graceful += view.timeUntil("gone", func() { forEachPod(b, "delete", api.delete(nil)) })
		create += view.timeUntil("Running", func() { forEachPod(b, "create", api.create) })
		forced += view.timeUntil("gone", func() { forEachPod(b, "delete by force", api.delete(new(int64))) })
	}
	rate := func(d time.Duration, times int) float64 { return herd * float64(times*b.N) / d.Seconds() }
	b.ReportMetric(rate(create, 2), "created/s")
	b.ReportMetric(rate(graceful, 1), "deleted/s")
	b.ReportMetric(rate(forced, 1), "forced/s")
	for service, spent := range c.cpu() {
		spent -= before[service]
		b.ReportMetric(float64(spent.Microseconds())/1000/float64(2*herd*b.N), service+"-ms/life")
	}
	b.ReportMetric(0, "ns/op")
}

// cpu returns the CPU time of each service, summed over nodes.
func (c *cluster) cpu() map[string]time.Duration {
	const tick = 10 * time.Millisecond // of /proc/<pid>/stat
	spent := map[string]time.Duration{}
	for _, process := range c.status() {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.PID), "stat"))
		if err != nil {
			c.t.Fatal(err)
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+2:]))
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		service, _, _ := strings.Cut(process.Name, "/")
		spent[service] += time.Duration(user+system) * tick
	}
	return spent
}

// forEachPod calls do for every pod of the herd, from many writers.
func forEachPod(b *testing.B, what string, do func(ctx context.Context, name string) error) {
	b.Helper()
	forEach(b, herd, what, do)
}

// forEach calls do for many pods, from many writers.
func forEach(b *testing.B, many int, what string, do func(ctx context.Context, name string) error) {
	b.Helper()
	numbers := make(chan int)
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for number := range numbers {
				if err := do(b.Context(), "pod-"+strconv.Itoa(number)); err != nil {
					b.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	for number := range many {
		numbers <- number
	}
	close(numbers)
	running.Wait()
}

// podCounter counts the pods that a watch shows.
type podCounter struct {
	b       *testing.B
	mu      sync.Mutex
	running map[string]bool
	known   map[string]bool
	changed chan struct{}
}

func newPodCounter(b *testing.B, api client) *podCounter {
	v := &podCounter{b: b, running: map[string]bool{}, known: map[string]bool{}, changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(b.Context())
	stream, err := api.Watch(ctx, pods(""), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for event := range stream.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				v.apply(event.Type, pod)
			}
		}
	})
	b.Cleanup(func() { cancel(); stream.Stop(); reader.Wait() })
	return v
}

func (v *podCounter) apply(kind watch.EventType, pod *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if kind == watch.Deleted {
		delete(v.known, pod.Name)
		delete(v.running, pod.Name)
	} else {
		v.known[pod.Name] = true
		if pod.Status.Phase == corev1.PodRunning {
			v.running[pod.Name] = true
		}
	}
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// timeUntil returns how long it takes from the start of do until the herd has the state.
func (v *podCounter) timeUntil(state string, do func()) time.Duration {
	begin := time.Now()
	do()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		v.mu.Lock()
		running, known := len(v.running), len(v.known)
		v.mu.Unlock()
		if (state == "Running" && running == herd) || (state == "gone" && known == 0) {
			return time.Since(begin)
		}
		select {
		case <-v.changed:
		case <-limit.C:
			v.b.Fatalf("two minutes later %d of %d pods run and %d are known, wanted %s", running, herd, known, state)
		}
	}
}

// BenchmarkDeleteToDeleted measures a graceful delete of a container that exits at once, from the
// request to the DELETED event.
func BenchmarkDeleteToDeleted(b *testing.B) {
	for _, timing := range []string{"fastest", "default"} {
		b.Run("ticks="+timing, func(b *testing.B) {
			c := up(b, "--nodes", "1", "--timing", timing)
			api := c.dial()
			view := newPodCounter(b, api)
			var total time.Duration
			for b.Loop() {
				if err := api.create(b.Context(), "pod"); err != nil {
					b.Fatal(err)
				}
				for view.countRunning() == 0 {
					<-view.changed
				}
				begin := time.Now()
				if err := api.delete(nil)(b.Context(), "pod"); err != nil {
					b.Fatal(err)
				}
				for view.countRunning() > 0 {
					<-view.changed
				}
				total += time.Since(begin)
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/delete")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// countRunning returns how many pods run; a terminating pod counts until it is gone.
func (v *podCounter) countRunning() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.running)
}

// BenchmarkUp measures `podfall up --nodes 3` until Ready, and then the proportional set size of
// each process in MiB.
func BenchmarkUp(b *testing.B) {
	var total time.Duration
	memory := map[string]float64{}
	for b.Loop() {
		begin := time.Now()
		c := up(b, "--nodes", "3")
		total += time.Since(begin)
		sum := 0.0
		for _, name := range []string{
			"supervisor", "bus", "apiserver", "controllers", "gateway", "kubelet/node-1", "kubelet/node-2", "kubelet/node-3",
			"runtime/node-1", "runtime/node-2", "runtime/node-3",
		} {
			mib := proportionalSetSize(b, c.pid(name))
			memory[name] += mib
			sum += mib
		}
		memory["all"] += sum
		c.must("down")
	}
	for _, name := range []string{"all", "bus", "apiserver", "controllers", "gateway", "kubelet/node-1", "runtime/node-1", "supervisor"} {
		b.ReportMetric(memory[name]/float64(b.N), strings.ReplaceAll(name, "/node-1", "")+"-MiB")
	}
	b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/up")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAPIServerRestart measures the time from restarting a killed apiserver to its answer to a
// get, with few objects and with the 10,000 unscheduled pods of L6.
func BenchmarkAPIServerRestart(b *testing.B) {
	for _, many := range []int{100, 10_000} {
		b.Run("pods="+strconv.Itoa(many), func(b *testing.B) {
			c := up(b, "--nodes", "1")
			api := c.dial()
			forEach(b, many, "create", func(ctx context.Context, name string) error {
				_, err := api.Create(ctx, pods(name), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
				}, metav1.CreateOptions{})
				return err
			})
			var total time.Duration
			for b.Loop() {
				c.must("crash", "apiserver")
				begin := time.Now()
				c.must("start", "apiserver")
				if _, err := api.Get(b.Context(), pods("pod-0"), metav1.GetOptions{}); err != nil {
					b.Fatal(err)
				}
				total += time.Since(begin)
			}
			b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms/again")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// proportionalSetSize returns a process's proportional set size in MiB.
func proportionalSetSize(b *testing.B, pid int) float64 {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib / 1024
		}
	}
	b.Fatal(fmt.Errorf("pid %d has no Pss", pid))
	return 0
}

// client adds pod operations to podapi.Client.
type client struct{ *podapi.Client }

func (c client) create(ctx context.Context, name string) error {
	_, err := c.Create(ctx, pods(name), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Annotations: map[string]string{"script.podfall.io/main": "on TERM exits 0 after 0s"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
	}, metav1.CreateOptions{})
	return err
}

func (c client) delete(grace *int64) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		_, err := c.Delete(ctx, pods(name), metav1.DeleteOptions{GracePeriodSeconds: grace})
		return err
	}
}
