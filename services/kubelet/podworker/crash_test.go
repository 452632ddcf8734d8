package podworker

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var zero = time.Unix(1e9, 0)

// TestCrashLoop lets a container crash at once, again and again, and looks at how long
// each restart waits.
func TestCrashLoop(t *testing.T) {
	timing := CrashTiming{Initial: 10 * time.Second, Max: 5 * time.Minute}
	pod := podWithGraces(30, -1)
	pod.Namespace = "default"
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers = []corev1.Container{{Name: "a"}}
	crashes, now, attempt := Crashes{}, zero, uint32(0)
	for _, seconds := range []int{0, 10, 20, 40, 80, 160, 300, 300} {
		want := time.Duration(seconds) * time.Second
		dead := containerWith("1", "a", attempt, exited)
		dead.ExitCode, dead.FinishedAtUnixNano = 1, now.UnixNano()
		seen := podWith(dead)
		plan := PlanStart(pod, StartInput{Seen: seen, Crashes: crashes, Now: now}, timing)
		if plan.After != want {
			t.Fatalf("restart %d waits %v, want %v", attempt+1, plan.After, want)
		}
		if plan.After > 0 {
			if len(plan.Containers) > 0 {
				t.Fatalf("restart %d waits and starts", attempt+1)
			}
			if attempt == 1 {
				want := "back-off 10s restarting failed container=a pod=p_default(u)"
				if got := plan.Waiting["a"]; got.Reason != "CrashLoopBackOff" || got.Message != want {
					t.Errorf("it waits for %+v", got)
				}
			}
			now = now.Add(plan.After)
			plan = PlanStart(pod, StartInput{Seen: seen, Crashes: crashes, Now: now}, timing)
		}
		if len(plan.Containers) != 1 || !plan.Containers[0].Again || plan.Containers[0].Attempt != attempt+1 {
			t.Fatalf("restart %d is %+v", attempt+1, plan.Containers)
		}
		crashes["a"] = crashes["a"].next(plan.Containers[0].Finished, now, timing)
		attempt++
	}
	// A clock that is a day behind makes no wait longer.
	again := containerWith("1", "a", attempt, exited)
	again.FinishedAtUnixNano = now.UnixNano()
	early := StartInput{Seen: podWith(again), Crashes: crashes, Now: now.Add(-24 * time.Hour)}
	if plan := PlanStart(pod, early, timing); plan.After != timing.Max {
		t.Errorf("by a clock that is a day behind the restart waits %v", plan.After)
	}
	// A run of more than twice the longest wait is forgiven.
	dead := containerWith("1", "a", attempt, exited)
	now = now.Add(11 * time.Minute)
	dead.FinishedAtUnixNano = now.UnixNano()
	if plan := PlanStart(pod, StartInput{Seen: podWith(dead), Crashes: crashes, Now: now}, timing); plan.After != 0 {
		t.Errorf("after a long run the restart waits %v", plan.After)
	}
}
