package procengine_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
)

// BenchmarkLifecycle runs whole lifecycles of real programs, four at a time: started, killed and
// removed, each with its shim, with and without namespaces.
func BenchmarkLifecycle(b *testing.B) {
	for _, name := range []string{"namespaces", "without namespaces"} {
		b.Run(name, func(b *testing.B) {
			allow, err := procengine.NewAllowlist([]string{"/bin"})
			if err != nil {
				b.Fatal(err)
			}
			cfg := procengine.Config{Dir: b.TempDir(), Shim: []string{os.Args[0], asShim}, Launch: launchCommand(), Allow: allow}
			if name == "namespaces" {
				cfg.Isolation = procengine.DetectIsolation(b.Context(), cfg.Launch, nil)
			}
			e, err := procengine.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			var mu sync.Mutex
			told := map[string]chan engine.Status{}
			ctx, end := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() {
				_ = e.Run(ctx, func(id string, status engine.Status) {
					mu.Lock()
					defer mu.Unlock()
					told[id] <- status
				})
			})
			jobs := make(chan string)
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					for id := range jobs {
						news := make(chan engine.Status, 2)
						mu.Lock()
						told[id] = news
						mu.Unlock()
						runLifecycle(b, e, id, news)
					}
				})
			}
			for i := range b.N {
				jobs <- fmt.Sprint("app", i)
			}
			close(jobs)
			workers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "containers/s")
			b.ReportMetric(0, "ns/op")
			end()
			running.Wait()
		})
	}
}

// runLifecycle starts, kills and removes one container.
func runLifecycle(b *testing.B, e *procengine.Engine, id string, news <-chan engine.Status) {
	b.Helper()
	_, err := e.Load(b.Context(), engine.Container{ID: id, Request: &proto.CreateContainerRequest{Name: id, Command: []string{"/bin/sleep", "1000"}}})
	if err == nil {
		err = e.Start(b.Context(), id, testNow())
	}
	if err != nil {
		b.Error(err)
		return
	}
	if status := <-news; status.State == exited {
		b.Errorf("%+v", status)
		return
	}
	if err := e.Signal(b.Context(), id, engine.SIGKILL, testNow()); err != nil {
		b.Error(err)
	}
	<-news
	e.Remove(b.Context(), id)
}
