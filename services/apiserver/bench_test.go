package apiserver_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
)

// writers is how many requests are under way at a time.
const writers = 64

// BenchmarkForcedDelete is a DELETE with grace 0 through the bus: one request, two
// revisions, one fsync shared with whoever else is waiting.
func BenchmarkForcedDelete(b *testing.B) {
	s := newHarness(b, func(cfg *apiserver.Config) { cfg.NoSync = false })
	api := podapi.New(s.dial("client:bench"), podapi.Config{})
	parallel(b, b.N, func(ctx context.Context, i int) error { return create(ctx, api, i) })
	b.ResetTimer()
	parallel(b, b.N, func(ctx context.Context, i int) error {
		_, err := api.Delete(ctx, pods(benchName(i), ""), grace(0))
		return err
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deletes/s")
}

// BenchmarkLifecycle is all that the API sees of a pod's life: create, bind, Running,
// DELETE, the terminal status, the final DELETE; and the kubelet's reads between them.
func BenchmarkLifecycle(b *testing.B) { benchLifecycle(b, nil) }

// BenchmarkRecorded is BenchmarkLifecycle with a history.
func BenchmarkRecorded(b *testing.B) {
	recorder, err := history.Open(history.Config{Dir: b.TempDir(), Process: "apiserver", Boot: "boot-1"})
	if err != nil {
		b.Fatal(err)
	}
	defer recorder.Close()
	benchLifecycle(b, recorder)
}

func benchLifecycle(b *testing.B, recorder *history.Recorder) {
	s := newHarness(b, func(cfg *apiserver.Config) { cfg.NoSync, cfg.History = false, recorder })
	user := podapi.New(s.dial("client:bench"), podapi.Config{})
	node := podapi.New(s.dial(proto.Node("n1")), podapi.Config{})
	b.ResetTimer()
	parallel(b, b.N, func(ctx context.Context, i int) error { return runLifecycle(ctx, user, node, i) })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lifecycles/s")
}

func runLifecycle(ctx context.Context, user, node *podapi.Client, i int) error {
	name := benchName(i)
	if err := create(ctx, user, i); err != nil {
		return err
	}
	binding := &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	if _, err := user.Create(ctx, pods(name, "binding"), binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	report := func(phase corev1.PodPhase) error {
		obj, err := node.Get(ctx, pods(name, ""), metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod, _ := obj.(*corev1.Pod)
		pod.Status.Phase = phase
		_, err = node.Update(ctx, pods(name, "status"), pod, metav1.UpdateOptions{})
		return err
	}
	if err := report(corev1.PodRunning); err != nil {
		return err
	}
	marked, err := user.Delete(ctx, pods(name, ""), metav1.DeleteOptions{})
	if err != nil {
		return err
	}
	if err := report(corev1.PodSucceeded); err != nil {
		return err
	}
	pod, _ := marked.(*corev1.Pod)
	confirm := grace(0)
	confirm.Preconditions = &metav1.Preconditions{UID: &pod.UID}
	_, err = node.Delete(ctx, pods(name, ""), confirm)
	return err
}

func benchName(i int) string { return fmt.Sprintf("p%d", i) }

func create(ctx context.Context, api *podapi.Client, i int) error {
	_, err := api.Create(ctx, pods("", ""), &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: benchName(i), Namespace: "default", Labels: map[string]string{"app": "bench"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}},
	}, metav1.CreateOptions{})
	return err
}

// parallel runs do n times on 64 goroutines.
func parallel(b *testing.B, n int, do func(context.Context, int) error) {
	b.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := do(b.Context(), int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}
