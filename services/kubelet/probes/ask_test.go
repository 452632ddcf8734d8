package probes_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// fakeExec is a runtime with one container, in which every command ends in the same way. What
// is asked of it and what is told is kept.
type fakeExec struct {
	probes.Runtime

	answer *proto.ExecSyncResponse
	err    error

	mu    sync.Mutex
	asked []*proto.ExecSyncRequest
	told  []string
}

func (e *fakeExec) ExecSync(_ context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, req)
	return e.answer, e.err
}

func (e *fakeExec) Last(types.UID) (podstate.Pod, bool) {
	return podstate.Pod{Containers: []*proto.Container{
		{Id: "c1", Name: "main", State: proto.ContainerState_CONTAINER_STATE_RUNNING},
	}}, true
}

func (e *fakeExec) ContainerEvent(_ *corev1.Pod, _, _, _, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, message)
}

// runOnce asks once.
func (e *fakeExec) runOnce(t *testing.T) (asked *proto.ExecSyncRequest, told string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := probes.New(probes.Config{Runtime: e, Cache: e, Events: e})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		p.Watch(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "u"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", ReadinessProbe: &corev1.Probe{
				ProbeHandler:   corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}},
				TimeoutSeconds: 3,
			}}}},
		})
		synctest.Wait()
		stop()
		running.Wait()
	})
	if len(e.asked) == 0 || len(e.told) == 0 {
		t.Fatalf("asked %v, told %v", e.asked, e.told)
	}
	return e.asked[0], e.told[0]
}

// TestExecHasATimeout, which the runtime is told: a command that hangs would run for ever
// otherwise, and another one with every period.
func TestExecHasATimeout(t *testing.T) {
	e := &fakeExec{err: &proto.RuntimeError{Code: proto.CodeDeadlineExceeded, Desc: "context deadline exceeded"}}
	asked, told := e.runOnce(t)
	if asked.TimeoutSeconds != 3 {
		t.Errorf("the runtime is given %d s, want 3", asked.TimeoutSeconds)
	}
	if want := `Readiness probe failed: command timed out: "check" timed out after 3s`; told != want {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestExecOutputIsCut: an event holds no more of a command's output than upstream's.
func TestExecOutputIsCut(t *testing.T) {
	e := &fakeExec{answer: &proto.ExecSyncResponse{ExitCode: 1, Stdout: []byte("why"), Stderr: bytes.Repeat([]byte("x"), 1<<20)}}
	_, told := e.runOnce(t)
	if want := "Readiness probe failed: why" + strings.Repeat("x", 10<<10-3); told != want {
		t.Errorf("told %d bytes, want %d", len(told), len(want))
	}
}
