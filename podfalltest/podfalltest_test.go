package podfalltest_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podfall/podfall/podfalltest"
)

func pod(name, script string, grace int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"script.podfall.io/main": script}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
		},
	}
}

const quick = "on TERM exits 0 after 0s"

// create creates a pod and waits until it runs.
func create(t testing.TB, client kubernetes.Interface, pod *corev1.Pod) {
	t.Helper()
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, pod.Name+" runs", func() bool {
		now, err := client.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.PodRunning
	})
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("two minutes later it is still not so that %s", what)
		}
	}
}

func isGone(t testing.TB, client kubernetes.Interface, name string) func() bool {
	return func() bool {
		_, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
}

func TestPodRunsAndIsDeleted(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Nodes(2))
	client := c.Client()
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Fatalf("%d nodes, %v; want 2", len(nodes.Items), err)
	}
	for _, node := range nodes.Items {
		ready := false
		for _, condition := range node.Status.Conditions {
			ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}
		if !ready {
			t.Errorf("%s is not Ready", node.Name)
		}
	}
	create(t, client, pod("web", quick, 30))
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", isGone(t, client, "web"))
}

func TestKubeconfig(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != c.Config().Host {
		t.Errorf("kubeconfig names %s, Config %s", config.Host, c.Config().Host)
	}
	if version, err := kubernetes.NewForConfigOrDie(config).ServerVersion(); err != nil || version.Minor == "" {
		t.Errorf("version %v, %v", version, err)
	}
	if info, err := os.Stat(c.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}
}

// TestEveryPartCanCrash crashes and restarts each part, and checks that the cluster still works.
func TestEveryPartCanCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble())
		client := c.Client()
		create(t, client, pod("old", quick, 30))
		for _, part := range c.Parts() {
			c.Crash(part)
			c.Restart(part)
			if _, err := client.CoreV1().Pods("default").Get(t.Context(), "old", metav1.GetOptions{}); err != nil {
				t.Errorf("%s has restarted: %v", part, err)
			}
		}
		create(t, client, pod("new", quick, 30))
		for _, name := range []string{"old", "new"} {
			if err := client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, name+" is gone", isGone(t, client, name))
		}
	})
}

// TestTheAddressIsKept crashes the gateway: its address does not answer, and no other process can
// take it.
func TestTheAddressIsKept(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t)
	client, err := rest.HTTPClientFor(c.Config()) // without client-go's retries, which take ten seconds
	if err != nil {
		t.Fatal(err)
	}
	look := func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Config().Host+"/api/v1/nodes/node-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	if err := look(); err != nil {
		t.Fatal(err)
	}
	c.Crash("gateway")
	if look() == nil {
		t.Error("a gateway that has crashed has answered")
	}
	at, err := url.Parse(c.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	if another, err := net.Listen("tcp", at.Host); err == nil {
		_ = another.Close()
		t.Error("another process can take the address of a gateway that has crashed")
	}
	c.Restart("gateway")
	if err := look(); err != nil {
		t.Errorf("the gateway has restarted: %v", err)
	}
}

// TestACutNodeDeletesNothing delays a deletion by each kind of cut.
func TestACutNodeDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble())
		client := c.Client()
		for way, name := range map[podfalltest.Way]string{
			podfalltest.BothWays: "both-ways", podfalltest.FromNode: "from-node", podfalltest.ToNode: "to-node", podfalltest.Rejected: "rejected",
		} {
			create(t, client, pod(name, quick, 30))
			c.Cut("node-1", way)
			if err := client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if now, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil || now.DeletionTimestamp == nil {
				t.Errorf("%s: deleted while its node is cut off: %v", name, err)
			}
			c.Heal("node-1")
			eventually(t, name+" is gone", isGone(t, client, name))
		}
	})
}

// TestABrokenNodeKeepsItsPods makes each step of a pod's termination fail, and mends it.
func TestABrokenNodeKeepsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble())
		client := c.Client()
		pods := client.CoreV1().Pods("default")
		for name, step := range map[string]podfalltest.Step{"unmount": podfalltest.Unmount, "cgroup": podfalltest.DestroyCgroup} {
			created := pod(name, quick, 30)
			created.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			create(t, client, created)
			c.Break("node-1", step)
			if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, name+"'s container has ended", func() bool {
				now, err := pods.Get(t.Context(), name, metav1.GetOptions{})
				return err == nil && len(now.Status.ContainerStatuses) == 1 && now.Status.ContainerStatuses[0].State.Terminated != nil
			})
			time.Sleep(time.Minute)
			if isGone(t, client, name)() {
				t.Errorf("%s fails, and the pod is gone", name)
			}
			c.Mend("node-1")
			eventually(t, name+" is gone", isGone(t, client, name))
		}
		c.Break("node-1", podfalltest.Mount)
		if _, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "mount"},
			Spec: corev1.PodSpec{
				Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if now, err := pods.Get(t.Context(), "mount", metav1.GetOptions{}); err != nil || now.Status.Phase != corev1.PodPending {
			t.Errorf("its volume cannot be mounted, and the pod is %s: %v", now.Status.Phase, err)
		}
		c.Mend("node-1")
		eventually(t, "the pod runs", func() bool {
			now, err := pods.Get(t.Context(), "mount", metav1.GetOptions{})
			return err == nil && now.Status.Phase == corev1.PodRunning
		})
	})
}

func TestSpeed(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Speed(100))
	client := c.Client()
	create(t, client, pod("stubborn", "ignores TERM", 300))
	begin := time.Now()
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "stubborn", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", isGone(t, client, "stubborn")) // does not take 300 s
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("a grace of 300 s took %v of the wall, want three seconds", took)
	}
}

// TestInABubble runs minutes of cluster time with client-go. Durations are exact, and no goroutine
// is left: a bubble does not end before its goroutines.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble(), podfalltest.Nodes(2))
		client := c.Client()
		create(t, client, pod("stubborn", "ignores TERM", 600))
		begin := time.Now()
		if err := client.CoreV1().Pods("default").Delete(t.Context(), "stubborn", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute - time.Second)
		if isGone(t, client, "stubborn")() {
			t.Error("gone before its grace was over")
		}
		for !isGone(t, client, "stubborn")() {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begin); took < 10*time.Minute || took > 10*time.Minute+3*time.Second {
			t.Errorf("a grace of ten minutes took %v", took)
		}
		for _, part := range c.Parts() {
			c.Crash(part)
			c.Restart(part)
		}
		create(t, client, pod("again", quick, 30))
		c.Cut("node-1")
		time.Sleep(10 * time.Minute)
		c.Heal("node-1")
		if err := client.CoreV1().Pods("default").Delete(t.Context(), "again", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for !isGone(t, client, "again")() {
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestManyAtATime runs clusters concurrently and checks that no goroutine is left.
func TestManyAtATime(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("clusters", func(t *testing.T) {
		for i := range 8 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				c := podfalltest.Start(t)
				client := c.Client()
				create(t, client, pod("web", quick, 30))
				pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(pods.Items) != 1 {
					t.Errorf("a cluster has %d pods, %v; want its own one", len(pods.Items), err)
				}
				stream, err := client.CoreV1().Pods("").Watch(context.WithoutCancel(t.Context()), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				var reading sync.WaitGroup
				reading.Go(func() {
					for range stream.ResultChan() { // until the cluster stops, which waits for no reader
					}
				})
				t.Cleanup(func() { // the cluster is still there
					if err := client.CoreV1().Pods("default").Delete(context.WithoutCancel(t.Context()), "web", metav1.DeleteOptions{}); err != nil {
						t.Errorf("clean up: %v", err)
					}
				})
			})
		}
	})
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// recordingTB records the failure message of a test.
type recordingTB struct {
	testing.TB
	mu      sync.Mutex
	failure string
}

func (w *recordingTB) Fatalf(format string, args ...any) {
	w.mu.Lock()
	w.failure = fmt.Sprintf(format, args...)
	w.mu.Unlock()
	runtime.Goexit()
}

func (w *recordingTB) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t)
	_ = c
	for want, do := range map[string]func(t testing.TB){
		"Nodes(0): want 1 to 200":                    func(t testing.TB) { podfalltest.Start(t, podfalltest.Nodes(0)) },
		"Speed: speed -1: want a number":             func(t testing.TB) { podfalltest.Start(t, podfalltest.Speed(-1)) },
		"Compat: ":                                   func(t testing.TB) { podfalltest.Start(t, podfalltest.Compat("v0.1")) },
		`"podgod" is not in the list`:                func(t testing.TB) { podfalltest.Start(t, podfalltest.Controllers("podgod")) },
		"fault \"f\": spec.point: Unsupported value": func(t testing.TB) { podfalltest.Start(t).AddFault("f", podfalltest.FaultSpec{Point: "x"}) },
		"crash: kubelet: no such part; want":         func(t testing.TB) { podfalltest.Start(t).Crash("kubelet") },
		"restart: gateway runs already":              func(t testing.TB) { podfalltest.Start(t).Restart("gateway") },
		`there is no node "n1"; want one of [apiserver controllers gateway node-1]`: func(t testing.TB) { podfalltest.Start(t).Cut("n1") },
	} {
		w := &recordingTB{TB: t}
		var running sync.WaitGroup
		running.Go(func() { do(w) })
		running.Wait()
		if !strings.Contains(w.failure, want) {
			t.Errorf("said %q, want %q in it", w.failure, want)
		}
	}
}

// BenchmarkStart measures starting a cluster until its nodes are Ready, and stopping it.
func BenchmarkStart(b *testing.B) {
	for _, nodes := range []int{1, 3, 10} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			var ready time.Duration
			for b.Loop() {
				begin := time.Now()
				startAndStop(b, nodes, func() { ready += time.Since(begin) })
			}
			b.ReportMetric(float64(ready.Microseconds())/1000/float64(b.N), "ms/ready")
		})
	}
}

// startAndStop starts and stops a cluster.
func startAndStop(b *testing.B, nodes int, ready func()) {
	t := &scope{TB: b}
	defer t.end()
	podfalltest.Start(t, podfalltest.Nodes(nodes))
	ready()
}

// scope is a testing.TB within a benchmark's iteration.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		last()
	}
}

// runAsTest gives an example a testing.TB.
func runAsTest(run func(t testing.TB)) {
	t := &example{}
	defer t.end()
	run(t)
}

// example is a testing.TB that prints and panics.
type example struct{ scope }

func (*example) Helper()                  {}
func (*example) Context() context.Context { return context.Background() }
func (*example) Output() io.Writer        { return io.Discard }

func (*example) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (*example) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*example) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

func (e *example) TempDir() string {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
