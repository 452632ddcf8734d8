package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/runtime"
)

type sinkFn struct{ f func(watch.Event) }

func (s sinkFn) Replace([]kinds.Object, string) {}
func (s sinkFn) Apply(e watch.Event)            { s.f(e) }

func TestZZSmoke(t *testing.T) {
	if os.Getenv("SMOKE") == "" {
		t.Skip()
	}
	nodes, pods := 10, 1000
	fmt.Sscan(os.Getenv("SMOKE"), &nodes, &pods)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	srv, err := bus.StartServer(ctx, bus.ServerConfig{Port: -1})
	must(err)
	dial := func(s *bus.Server, id proto.Identity) *bus.Conn {
		c, err := bus.Dial(ctx, bus.Config{Identity: id, InProcess: s.InProcessConn})
		must(err)
		return c
	}
	compat, _ := proto.CompatFor("")
	var group sync.WaitGroup
	ready := make(chan string, 100)
	run := func(name string, f func() error) {
		group.Go(func() {
			if err := f(); err != nil && ctx.Err() == nil {
				t.Error(name, err)
			}
		})
	}
	ac := dial(srv, proto.APIServer)
	dir := t.TempDir()
	run("apiserver", func() error {
		return apiserver.Run(ctx, apiserver.Config{Bus: ac, DataDir: dir + "/api", Compat: compat, Boot: proto.NewBoot(time.Now(), [4]byte{1}), Log: log, Ready: func() { ready <- "api" }})
	})
	<-ready
	client := podapi.New(dial(srv, proto.Client("me")), podapi.Config{})
	nsKind, _ := kinds.ByResource("namespaces")
	for _, ns := range []string{"default", "kube-node-lease"} {
		_, err = client.Create(ctx, podapi.Target{Kind: nsKind}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
		t.Log(err)
	}
	for i := range nodes {
		nb, err := bus.StartServer(ctx, bus.ServerConfig{Port: -1})
		must(err)
		name := fmt.Sprintf("n%d", i)
		rc := dial(nb, proto.Runtime)
		run("runtime", func() error {
			return runtime.Run(ctx, runtime.Config{Bus: rc, DataDir: dir + "/rt" + name, Boot: proto.NewBoot(time.Now(), [4]byte{2}), Log: log, Ready: func() { ready <- "rt" }})
		})
		<-ready
		kc, kr := dial(srv, proto.Node(name)), dial(nb, proto.Kubelet)
		run("kubelet", func() error {
			return Run(ctx, Config{Node: name, Bus: kc, Runtime: kr, DataDir: dir + "/k" + name, Compat: compat, Boot: proto.NewBoot(time.Now(), [4]byte{3}), Timing: Fastest(), Log: log, Ready: func() { ready <- "kubelet" }})
		})
	}
	for range nodes {
		<-ready
	}
	t.Log("all ready")
	podKind, _ := kinds.ByResource("pods")
	target := podapi.Target{Kind: podKind, Namespace: "default"}
	var runningN, deletedN atomic.Int64
	seen := sync.Map{}
	var last atomic.Value
	group.Go(func() {
		_ = client.Follow(ctx, target, metav1.ListOptions{}, sinkFn{func(e watch.Event) {
			p := e.Object.(*corev1.Pod)
			if p.Name == "p0" {
				fmt.Println(time.Now().Format("05.000"), e.Type, describe(p))
			}
			last.Store(p)
			if e.Type == watch.Deleted {
				deletedN.Add(1)
			} else if p.Status.Phase == corev1.PodRunning {
				if _, dup := seen.LoadOrStore(p.Name, true); !dup {
					runningN.Add(1)
				}
			}
		}})
	})
	time.Sleep(200 * time.Millisecond)
	parallel := func(f func(i int)) {
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 64 {
			wg.Go(func() {
				for {
					i := int(next.Add(1)) - 1
					if i >= pods {
						return
					}
					f(i)
				}
			})
		}
		wg.Wait()
	}
	await := func(n *atomic.Int64) {
		for i := 0; n.Load() < int64(pods); i++ {
			time.Sleep(time.Millisecond)
			if i > 20000 {
				t.Fatalf("only %d, last %v", n.Load(), last.Load())
			}
		}
	}
	begun := time.Now()
	parallel(func(i int) {
		g := int64(30)
		_, err := client.Create(ctx, target, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: "default", Annotations: map[string]string{"script.podfall.io/c": "on TERM exits 0 after 0s"}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("n%d", i%nodes), TerminationGracePeriodSeconds: &g, Containers: []corev1.Container{{Name: "c", Image: "img"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	await(&runningN)
	t.Logf("create to running: %v, %.0f/s", time.Since(begun), float64(pods)/time.Since(begun).Seconds())
	begun = time.Now()
	parallel(func(i int) {
		tt := target
		tt.Name = fmt.Sprintf("p%d", i)
		if _, err := client.Delete(ctx, tt, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	await(&deletedN)
	t.Logf("delete to gone: %v, %.0f/s", time.Since(begun), float64(pods)/time.Since(begun).Seconds())
	cancel()
	group.Wait()
}
