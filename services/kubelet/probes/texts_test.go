package probes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
)

// fakeReach is a runtime with one container that always answers in the same way.
type fakeReach struct {
	fakeExec

	reached *proto.ReachResponse
	refusal error
	slow    bool
}

func (r *fakeReach) Reach(ctx context.Context, _ *proto.ReachRequest) (*proto.ReachResponse, error) {
	if r.slow {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.reached, r.refusal
}

func (*fakeReach) Last(types.UID) (podstate.Pod, bool) {
	return podstate.Pod{Sandboxes: []*proto.Sandbox{{Id: "box", Ip: "10.0.0.7"}}, Containers: []*proto.Container{
		{Id: "c1", Name: "main", State: proto.ContainerState_CONTAINER_STATE_RUNNING},
	}}, true
}

// TestProbeEvents: events say what a dialer, an HTTP client and a gRPC client say, and not what the
// runtime thinks.
func TestProbeEvents(t *testing.T) {
	http := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(80)}}
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}
	grpc := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}}
	run := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/no/such"}}}
	dead := &proto.RuntimeError{Code: proto.CodeUnknown, Desc: `failed to reach container "c1": it is not running`}
	for _, row := range []struct {
		name    string
		handler corev1.ProbeHandler
		runtime *fakeReach
		want    string
	}{
		{"refused", http, &fakeReach{refusal: errors.New("dial port 80: connect: connection refused")}, `Readiness probe failed: Get "http://10.0.0.7:80/healthz": dial tcp 10.0.0.7:80: connect: connection refused`},
		{"not running", http, &fakeReach{refusal: dead}, `Readiness probe failed: Get "http://10.0.0.7:80/healthz": dial tcp 10.0.0.7:80: connect: connection refused`},
		{"slow", http, &fakeReach{slow: true}, `Readiness probe failed: Get "http://10.0.0.7:80/healthz": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`},
		{"500", http, &fakeReach{reached: &proto.ReachResponse{Code: 500}}, "Readiness probe failed: HTTP probe failed with statuscode: 500"},
		{"tcp", tcp, &fakeReach{refusal: dead}, "Readiness probe failed: dial tcp 10.0.0.7:80: connect: connection refused"},
		{"tcp, slow", tcp, &fakeReach{slow: true}, "Readiness probe failed: dial tcp 10.0.0.7:80: i/o timeout"},
		{"grpc", grpc, &fakeReach{refusal: dead}, `Readiness probe failed: timeout: failed to connect service "10.0.0.7:80" within 1s: context deadline exceeded`},
		{"grpc, not serving", grpc, &fakeReach{reached: &proto.ReachResponse{Code: 2}}, `Readiness probe failed: service unhealthy (responded with "NOT_SERVING")`},
		{"no program", run, &fakeReach{fakeExec: fakeExec{err: dead}}, `Readiness probe errored and resulted in unknown state: rpc error: code = Unknown desc = failed to reach container "c1": it is not running`},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := probes.New(probes.Config{Runtime: row.runtime, Cache: row.runtime, Events: row.runtime})
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = p.Run(ctx) })
				defer running.Wait()
				defer stop()
				p.Watch(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", ReadinessProbe: &corev1.Probe{ProbeHandler: row.handler},
				}}}})
				time.Sleep(2 * time.Second) // a slow answer takes one
				synctest.Wait()
				row.runtime.mu.Lock()
				defer row.runtime.mu.Unlock()
				if got := row.runtime.told[0]; got != row.want {
					t.Errorf("told %q,\nwant %q", got, row.want)
				}
			})
		})
	}
}
