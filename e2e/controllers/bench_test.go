package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/podfalltest/inprocess"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet"
)

// BenchmarkDeployment brings 1,000 replicas up on 10 nodes and down again.
func BenchmarkDeployment(b *testing.B) {
	const replicas = 1000
	var up, down time.Duration
	for range b.N {
		measure(b, 10, func(f *benchCluster) {
			begin := time.Now()
			f.create("deployments.apps", &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       appsv1.DeploymentSpec{Replicas: new(int32(replicas)), Selector: selector("web"), Template: template("web", quickExit)},
			})
			f.waitUntil(func() bool { return f.ready == replicas })
			up += time.Since(begin)
			begin = time.Now()
			f.scale("deployments.apps", 0)
			f.waitUntil(func() bool { return len(f.pods) == 0 })
			down += time.Since(begin)
		})
	}
	report(b, replicas, up, down)
}

// BenchmarkStatefulSet brings 100 replicas up, one after the other, and down again.
func BenchmarkStatefulSet(b *testing.B) {
	const replicas = 100
	var up, down time.Duration
	for range b.N {
		measure(b, 3, func(f *benchCluster) {
			begin := time.Now()
			set := statefulSet("web", replicas)
			set.Spec.Template = template("web", quickExit)
			f.create("statefulsets.apps", set)
			f.waitUntil(func() bool { return f.ready == replicas })
			up += time.Since(begin)
			begin = time.Now()
			f.scale("statefulsets.apps", 0)
			f.waitUntil(func() bool { return len(f.pods) == 0 })
			down += time.Since(begin)
		})
	}
	report(b, replicas, up, down)
}

// BenchmarkEviction taints a node with 500 pods of a ReplicaSet: until they are gone from it,
// and run elsewhere.
func BenchmarkEviction(b *testing.B) {
	const replicas = 500
	var gone, back time.Duration
	for range b.N {
		measure(b, 2, func(f *benchCluster) {
			f.merge("nodes", "node-2", `{"spec":{"unschedulable":true}}`)
			f.create("replicasets.apps", &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(replicas)), Selector: selector("web"), Template: template("web", quickExit)},
			})
			f.waitUntil(func() bool { return f.ready == replicas })
			f.merge("nodes", "node-2", `{"spec":{"unschedulable":null}}`)
			begin := time.Now()
			f.merge("nodes", "node-1", `{"spec":{"taints":[{"key":"gone","effect":"NoExecute"}]}}`)
			f.waitUntil(func() bool { return f.on["node-1"] == 0 })
			gone += time.Since(begin)
			f.waitUntil(func() bool { return f.ready == replicas })
			back += time.Since(begin)
		})
	}
	b.ReportMetric(replicas*float64(b.N)/gone.Seconds(), "pods/s-evicted")
	b.ReportMetric(replicas*float64(b.N)/back.Seconds(), "pods/s-replaced")
}

// quickExit is a container that exits at once, so that the cluster is measured.
const quickExit = "on TERM exits 0 after 1ms"

func report(b *testing.B, replicas int, up, down time.Duration) {
	b.Helper()
	b.ReportMetric(float64(replicas*b.N)/up.Seconds(), "pods/s-up")
	b.ReportMetric(float64(replicas*b.N)/down.Seconds(), "pods/s-down")
}

// benchCluster is a cluster on wall-clock time, and what is known of its pods.
type benchCluster struct {
	b   *testing.B
	api *podapi.Client

	mu      sync.Mutex
	changed *sync.Cond
	pods    map[types.UID]*corev1.Pod
	ready   int
	on      map[string]int
	late    bool
}

// runTimeout is how long one run may take.
const runTimeout = 5 * time.Minute

// measure runs once in a cluster of its own. Its creation is not measured.
func measure(b *testing.B, nodes int, do func(*benchCluster)) {
	b.Helper()
	b.StopTimer()
	ctx, cancel := context.WithTimeout(b.Context(), runTimeout)
	compat, err := proto.CompatFor("")
	if err != nil {
		b.Fatal(err)
	}
	cfg := inprocess.Config{
		Dir: b.TempDir(), Compat: compat, Log: slog.New(slog.DiscardHandler),
		Boot:  func(string) proto.Boot { return proto.NewBoot(time.Now(), [4]byte{}) },
		Ended: func(name string, err error) { b.Errorf("%s ended by itself: %v", name, err) },
		Kubelet: func(string) kubelet.Config {
			return kubelet.Config{Timing: kubelet.Fastest(), Machine: kubelet.Machine{Capacity: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1000")}}}
		},
	}
	for i := range nodes {
		cfg.Nodes = append(cfg.Nodes, fmt.Sprintf("node-%d", i+1))
	}
	parts, err := inprocess.New(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer parts.Close()
	names := []string{"apiserver", "controllers"}
	for _, node := range cfg.Nodes {
		names = append(names, "runtime/"+node, "kubelet/"+node)
	}
	for _, name := range names {
		if err := parts.Start(ctx, name); err != nil {
			b.Fatal(err)
		}
	}
	conn, err := bus.Dial(ctx, bus.Config{Identity: proto.Client("admin"), InProcess: parts.Hub})
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	f := &benchCluster{
		b: b, api: podapi.New(conn, podapi.Config{Boot: proto.NewBoot(clock.Clock{}.Now(), [4]byte{1})}),
		pods: map[types.UID]*corev1.Pod{}, on: map[string]int{},
	}
	f.changed = sync.NewCond(&f.mu)
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = true
		f.changed.Broadcast()
	})()
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { _ = f.api.Follow(ctx, f.target("pods", ""), metav1.ListOptions{}, f) })
	b.StartTimer()
	do(f)
	b.StopTimer()
}

func (f *benchCluster) target(resource, name string) podapi.Target {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		f.b.Fatalf("no kind %s", resource)
	}
	target := podapi.Target{Kind: kind, Name: name}
	if kind.Namespaced {
		target.Namespace = "default"
	}
	return target
}

func (f *benchCluster) create(resource string, obj kinds.Object) {
	f.b.Helper()
	obj.SetNamespace("default")
	if _, err := f.api.Create(f.b.Context(), f.target(resource, ""), obj, metav1.CreateOptions{}); err != nil {
		f.b.Fatal(err)
	}
}

func (f *benchCluster) merge(resource, name, patch string) {
	f.b.Helper()
	if _, err := f.api.Patch(f.b.Context(), f.target(resource, name), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		f.b.Fatal(err)
	}
}

func (f *benchCluster) scale(resource string, n int) {
	f.b.Helper()
	f.merge(resource, "web", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

// waitUntil waits for a condition of the pods.
func (f *benchCluster) waitUntil(is func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !is() && !f.late {
		f.changed.Wait()
	}
	if f.late {
		f.b.Fatalf("after %v: %d pods, %d of them ready", runTimeout, len(f.pods), f.ready)
	}
}

// Replace implements podapi.Sink.
func (f *benchCluster) Replace(items []kinds.Object, _ string) {
	f.mu.Lock()
	f.pods, f.on, f.ready = map[types.UID]*corev1.Pod{}, map[string]int{}, 0
	f.mu.Unlock()
	for _, item := range items {
		f.Apply(watch.Event{Type: watch.Added, Object: item})
	}
}

// Apply implements podapi.Sink.
func (f *benchCluster) Apply(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.pods[pod.UID]; old != nil {
		f.count(old, -1)
		delete(f.pods, pod.UID)
	}
	if event.Type != watch.Deleted {
		f.count(pod, 1)
		f.pods[pod.UID] = pod
	}
	f.changed.Broadcast()
}

func (f *benchCluster) count(pod *corev1.Pod, n int) {
	f.on[pod.Spec.NodeName] += n
	if isReady(pod) && pod.DeletionTimestamp == nil {
		f.ready += n
	}
}
