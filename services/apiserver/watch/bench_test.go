package watch_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/watch"
)

// roomy is how many events may be on their way to the readers, so that none of them is
// slow.
const roomy = 512

// BenchmarkDeliver is one group of 1, 100 and 1,000 watchers, each on a connection of
// its own over loopback TCP, while 64 writers update pods of about 1 KB. "decoded"
// counts events as podapi's consumers get them; "frames" counts them as they arrive at
// a process, with sequence and revision read and objects still encoded, which is what
// bus and apiserver can do. An operation is 512 changes delivered to every watcher.
func BenchmarkDeliver(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("decoded/watchers=%d", watchers), func(b *testing.B) {
			deliver(b, watchers, (*bench).decoded)
		})
		b.Run(fmt.Sprintf("frames/watchers=%d", watchers), func(b *testing.B) {
			deliver(b, watchers, (*bench).frames)
		})
	}
}

type bench struct {
	b     testing.TB
	bus   *bus.Server
	store *store.Store
	hub   *watch.Hub
	// got counts events, one number for each watcher.
	got []atomic.Int64
}

func deliver(b *testing.B, watchers int, read func(*bench, context.Context, int) (stop func())) {
	rig := newBench(b, watchers)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	defer cancel()
	for i := range watchers {
		defer read(rig, ctx, i)()
	}
	began, cpu := time.Now(), used(b)
	b.ResetTimer()
	for range b.N {
		before := rig.got[0].Load()
		rig.write(ctx, roomy)
		for i := range rig.got {
			for rig.got[i].Load() < before+roomy {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}
	b.StopTimer()
	deliveries := float64(b.N * roomy * watchers)
	b.ReportMetric(deliveries/time.Since(began).Seconds(), "deliveries/s")
	b.ReportMetric(float64(used(b)-cpu)/deliveries, "cpu-ns/delivery")
	cancel()
}

func used(b testing.TB) time.Duration {
	usage := syscall.Rusage{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func newBench(b testing.TB, watchers int) *bench {
	rig := &bench{b: b, got: make([]atomic.Int64, watchers)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var err error
	if rig.bus, err = bus.StartServer(ctx, bus.ServerConfig{}); err != nil {
		b.Fatal(err)
	}
	if rig.store, err = store.Open(ctx, store.Config{
		Path: filepath.Join(b.TempDir(), "store"), NoSync: true,
		OnCommit: func(now *store.Snapshot, events []store.Event) { rig.hub.OnCommit(now, events) },
	}); err != nil {
		b.Fatal(err)
	}
	conn := rig.dial(ctx, proto.APIServer)
	boot := proto.NewBoot(time.Now(), [4]byte{})
	rig.hub = watch.New(watch.Config{Boot: boot, Store: rig.store, Match: match, Publish: watch.EncodeTo(conn.Publish)})
	served := &harness{t: b, store: rig.store}
	var parts sync.WaitGroup
	parts.Go(func() { _ = rig.store.Run(ctx) })
	parts.Go(func() { _ = rig.hub.Run(ctx) })
	parts.Go(func() {
		_ = conn.Serve(ctx, "api.>", func(ctx context.Context, call *bus.Call) { served.serve(ctx, rig.hub, boot, call) })
	})
	b.Cleanup(func() {
		cancel()
		parts.Wait()
		conn.Close()
		_ = rig.store.Close()
		rig.bus.Close()
	})
	return rig
}

func (r *bench) dial(ctx context.Context, id proto.Identity) *bus.Conn {
	conn, err := bus.Dial(ctx, bus.Config{URLs: []string{r.bus.URL()}, Identity: id})
	if err != nil {
		r.b.Fatal(err)
	}
	return conn
}

func (r *bench) begin() metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: strconv.FormatInt(r.store.Snapshot().Revision(), 10)}
}

// decoded counts what a consumer gets.
func (r *bench) decoded(ctx context.Context, i int) (stop func()) {
	conn := r.dial(ctx, proto.Client("reader"))
	w, err := podapi.New(conn, podapi.Config{}).Watch(ctx, pods(""), r.begin())
	if err != nil {
		r.b.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for range w.ResultChan() {
			r.got[i].Add(1)
		}
	})
	return func() {
		w.Stop()
		reading.Wait()
		conn.Close()
	}
}

// frames counts what arrives at a process.
func (r *bench) frames(ctx context.Context, i int) (stop func()) {
	conn := r.dial(ctx, proto.Client("reader"))
	scope := proto.WatchScope{Resource: "pods"}
	live, err := conn.Subscribe(proto.WatchSubject(conn.Identity().Class(), scope), 10_000)
	if err != nil {
		r.b.Fatal(err)
	}
	if err := conn.Flush(ctx); err != nil {
		r.b.Fatal(err)
	}
	opened := func(context.Context, *proto.Response, bool) error { return nil }
	if err := r.hub.Open(ctx, watch.Request{Class: conn.Identity().Class(), Scope: scope, Options: r.begin()}, opened); err != nil {
		r.b.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		frame := &proto.Frame{}
		for {
			data, err := live.Next(ctx)
			if err != nil {
				return
			}
			if err := protobuf.Unmarshal(data, frame); err != nil {
				r.b.Error(err)
			}
			r.got[i].Add(int64(len(frame.GetEvents())))
		}
	})
	return func() {
		live.Close()
		reading.Wait()
		conn.Close()
	}
}

// write is n updates by 64 writers.
func (r *bench) write(ctx context.Context, n int) {
	var writers sync.WaitGroup
	for w := range 64 {
		writers.Go(func() {
			for range n / 64 {
				p := typical(w)
				writing := store.Write{Key: keyOf(p), Expect: store.Any, Object: p}
				if _, err := r.store.Commit(ctx, store.Commit{Writes: []store.Write{writing}}); err != nil {
					r.b.Error(err)
				}
			}
		})
	}
	writers.Wait()
}

var written atomic.Int64

// typical is a running pod with one container.
func typical(i int) *corev1.Pod {
	p := pod("default", fmt.Sprint("web-7d9f8c6b5d-", i), map[string]string{"app": "web", "pod-template-hash": "7d9f8c6b5d"})
	p.Annotations = map[string]string{"n": strconv.FormatInt(written.Add(1), 10)}
	requests := make(corev1.ResourceList)
	requests[corev1.ResourceCPU], requests[corev1.ResourceMemory] = resource.MustParse("100m"), resource.MustParse("64Mi")
	p.Spec = corev1.PodSpec{
		NodeName: "node-1", RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
		ServiceAccountName: "default", SchedulerName: "default-scheduler",
		Containers: []corev1.Container{{
			Name: "web", Image: "nginx:1.27", ImagePullPolicy: corev1.PullIfNotPresent,
			Ports:                  []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}},
			Resources:              corev1.ResourceRequirements{Requests: requests},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}},
	}
	running := metav1.NewTime(time.Unix(1_767_225_600, 0))
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: "10.244.0.7", StartTime: &running, QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: running},
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: running},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: running},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: running},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Ready: true, Image: "nginx:1.27", ImageID: "sha256:0123456789abcdef", ContainerID: "containerd://0123456789abcdef",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: running}},
		}},
	}
	return p
}
