package probes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Each row is one container's story: what is found at each tick, and the result after it.
func TestTracker(t *testing.T) {
	began := time.Unix(1e9, 0)
	up := Target{ID: "a", Running: true, Started: began, Up: true}
	with := func(change func(*Target)) Target {
		target := up
		change(&target)
		return target
	}
	type tick struct {
		target  Target
		after   time.Duration
		want    Decision
		outcome Result // of an Ask
		result  Result
	}
	for _, row := range []struct {
		name  string
		kind  Kind
		probe corev1.Probe
		ticks []tick
	}{
		{"ready at the first success", Readiness, corev1.Probe{}, []tick{
			{up, 0, Probe, Success, Success}, {up, 0, Probe, Failure, Success}, {up, 0, Probe, Failure, Success}, {up, 0, Probe, Failure, Failure},
		}},
		{"a success in between begins the count anew", Liveness, corev1.Probe{FailureThreshold: 2}, []tick{
			{up, 0, Probe, Failure, Success}, {up, 0, Probe, Success, Success}, {up, 0, Probe, Failure, Success}, {up, 0, Probe, Failure, Failure},
		}},
		{"a success threshold", Readiness, corev1.Probe{SuccessThreshold: 2}, []tick{
			{up, 0, Probe, Success, Failure}, {up, 0, Probe, Success, Success},
		}},
		{"the initial delay", Readiness, corev1.Probe{InitialDelaySeconds: 5}, []tick{
			{up, 4999 * time.Millisecond, Skip, Unknown, Failure}, {up, 5 * time.Second, Probe, Success, Success},
		}},
		{"a failure is told once, and held until the container is another", Liveness, corev1.Probe{FailureThreshold: 1}, []tick{
			{up, 0, Probe, Failure, Failure},
			{up, 0, Skip, Unknown, Failure},
			{with(func(x *Target) { x.Running = false }), 0, Skip, Unknown, Failure},
			{with(func(x *Target) { x.ID = "b" }), 0, Probe, Success, Success},
		}},
		{"a container that does not run is not ready", Readiness, corev1.Probe{}, []tick{
			{up, 0, Probe, Success, Success}, {with(func(x *Target) { x.Running = false }), 0, Skip, Unknown, Failure},
		}},
		{"nothing to probe yet", Readiness, corev1.Probe{}, []tick{{Target{}, 0, Skip, Unknown, Failure}}},
		{"liveness waits for the start", Liveness, corev1.Probe{}, []tick{
			{with(func(x *Target) { x.Up = false }), 0, Skip, Unknown, Success}, {up, 0, Probe, Success, Success},
		}},
		{"startup ends with its success", Startup, corev1.Probe{}, []tick{
			{with(func(x *Target) { x.Up = false }), 0, Probe, Success, Success}, {up, 0, Skip, Unknown, Success},
		}},
		{"startup fails", Startup, corev1.Probe{FailureThreshold: 1}, []tick{
			{with(func(x *Target) { x.Up = false }), 0, Probe, Failure, Failure},
		}},
		{"liveness ends when the pod is deleted", Liveness, corev1.Probe{FailureThreshold: 1}, []tick{
			{up, 0, Probe, Failure, Failure}, {with(func(x *Target) { x.Deleted = true }), 0, End, Unknown, Success},
		}},
		{"readiness goes on when the pod is deleted", Readiness, corev1.Probe{}, []tick{
			{with(func(x *Target) { x.Deleted = true }), 0, Probe, Success, Success},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tracker := NewTracker(row.kind)
			for i, tick := range row.ticks {
				var got Decision
				tracker, got = tracker.Tick(tick.target, &row.probe, began.Add(tick.after))
				if got != tick.want {
					t.Fatalf("tick %d: decision %v, want %v", i, got, tick.want)
				}
				if got == Probe {
					tracker = tracker.RecordOutcome(tick.outcome, &row.probe)
				}
				if tracker.Result() != tick.result {
					t.Fatalf("tick %d: result %v, want %v", i, tracker.Result(), tick.result)
				}
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	if Period(&corev1.Probe{}) != 10*time.Second || Timeout(&corev1.Probe{}) != time.Second {
		t.Errorf("period %v, timeout %v; want 10s, 1s", Period(&corev1.Probe{}), Timeout(&corev1.Probe{}))
	}
}
