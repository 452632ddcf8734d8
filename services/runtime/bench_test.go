package runtime_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/simengine"
)

// startReal starts a runtime with fsync and the wall clock.
func startReal(b *testing.B) *runtimeapi.Client {
	b.Helper()
	server, err := bus.StartServer(b.Context(), bus.ServerConfig{Port: bus.InProcessOnly})
	if err != nil {
		b.Fatal(err)
	}
	dial := func(id proto.Identity) *bus.Conn {
		conn, err := bus.Dial(b.Context(), bus.Config{Identity: id, InProcess: server.InProcessConn})
		if err != nil {
			b.Fatal(err)
		}
		return conn
	}
	conn, kube := dial(proto.Runtime), dial(proto.Kubelet)
	ctx, cancel := context.WithCancel(b.Context())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- runtime.Run(ctx, runtime.Config{
			Bus: conn, DataDir: b.TempDir(), PodCIDR: "10.64.0.0/10", Ready: func() { close(ready) },
		})
	}()
	<-ready
	b.Cleanup(func() {
		kube.Close()
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		conn.Close()
		server.Close()
	})
	client := runtimeapi.NewClient(kube, clock.Clock{})
	for { // until it serves
		if _, err := client.ListContainers(b.Context(), ""); err == nil {
			return client
		}
	}
}

// BenchmarkLifecycle runs whole lifecycles, with every call over the node bus and every record
// fsynced: sandbox, create, start, stop (TERM, exit), stop and remove the sandbox.
func BenchmarkLifecycle(b *testing.B) {
	for _, workers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			client := startReal(b)
			jobs := make(chan int)
			var running sync.WaitGroup
			b.ResetTimer()
			for range workers {
				running.Go(func() {
					for job := range jobs {
						if err := runLifecycle(b.Context(), client, job); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				jobs <- i
			}
			close(jobs)
			running.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "containers/s")
		})
	}
}

func runLifecycle(ctx context.Context, rt runtimeapi.Runtime, n int) error {
	box, err := rt.RunPodSandbox(ctx, &proto.RunPodSandboxRequest{PodUid: fmt.Sprint(n), PodName: "web", PodNamespace: "default"})
	if err != nil {
		return err
	}
	id, err := rt.CreateContainer(ctx, &proto.CreateContainerRequest{SandboxId: box.Id, Name: "app", Script: "on TERM exits 0"})
	if err != nil {
		return err
	}
	if err := rt.StartContainer(ctx, id); err != nil {
		return err
	}
	if err := rt.StopContainer(ctx, id, 30); err != nil {
		return err
	}
	if err := rt.StopPodSandbox(ctx, box.Id); err != nil {
		return err
	}
	return rt.RemovePodSandbox(ctx, box.Id)
}

// BenchmarkContainerMemory measures the memory of a running scripted container beyond its record.
func BenchmarkContainerMemory(b *testing.B) {
	heap := func() uint64 {
		var stats goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	e := simengine.New(clock.Clock{})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, func(string, engine.Status) {}) }()
	req := &proto.CreateContainerRequest{Name: "app", Script: "on TERM exits 0 after 1s, exits 0 after 24h"}
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = fmt.Sprintf("%064d", i)
	}
	before := heap()
	for _, id := range ids {
		if _, err := e.Load(ctx, engine.Container{ID: id, Request: req}); err != nil {
			b.Fatal(err)
		}
		if err := e.Start(ctx, id, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "B/container")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

// BenchmarkTenThousandContainers measures the heap of ten thousand scripted containers in one
// runtime, with its bus and its records: beyond that of a runtime without containers, and in total.
// The goal is less than 150 MiB.
func BenchmarkTenThousandContainers(b *testing.B) {
	const many = 10_000
	inUse := func() float64 {
		var stats goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&stats)
		return float64(stats.HeapInuse + stats.StackInuse)
	}
	for b.Loop() {
		client := startReal(b)
		before := inUse()
		jobs := make(chan int)
		var running sync.WaitGroup
		for range 64 {
			running.Go(func() {
				for job := range jobs {
					box, err := client.RunPodSandbox(b.Context(), &proto.RunPodSandboxRequest{PodUid: fmt.Sprint(job), PodName: "web", PodNamespace: "default"})
					if err != nil {
						b.Error(err)
						continue
					}
					id, err := client.CreateContainer(b.Context(), &proto.CreateContainerRequest{SandboxId: box.Id, Name: "app", Script: "on TERM exits 0"})
					if err == nil {
						err = client.StartContainer(b.Context(), id)
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		for job := range many {
			jobs <- job
		}
		close(jobs)
		running.Wait()
		after := inUse()
		b.ReportMetric(after/(1<<20), "MiB")
		b.ReportMetric((after-before)/many, "B/container")
	}
	b.ReportMetric(0, "ns/op")
}
