package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podworker"
)

// evict kills a pod from inside the node while the runtime is down for as long as a kill
// waits, if the kill is to time out.
func (s *stage) evict(script string, grace int64, want string) {
	s.t.Helper()
	p, err := assemble(Config{Node: "n1", DataDir: s.dir, Timing: s.timing, Compat: s.compat}, s.api, s.runtime)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.run(ctx) }()
	s.create(podOf("p", script, grace))
	time.Sleep(5 * time.Second)
	s.setDown(want != "")
	begun := time.Now()
	err = p.workers.Kill(ctx, "uid-p", podworker.Kill{
		Grace: new(int64(0)), Cause: &podworker.Cause{Reason: "Evicted", Message: "The node was low on resource: memory."},
	})
	if took := time.Since(begun); want == "" && took != time.Second || want != "" && took != 10*time.Second {
		s.t.Errorf("KBL-23: the kill took %v", took)
	}
	if text := errorText(err); text != want {
		s.t.Errorf("KBL-23: the kill's error is %q, want %q", text, want)
	}
	s.setDown(false)
	time.Sleep(30 * time.Second)
	if pod := s.pod("p"); pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Evicted" {
		s.t.Errorf("KBL-83: it is %s", describe(pod))
	}
	cancel()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
