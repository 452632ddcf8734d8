package stories

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
)

// TestCrashTable kills the kubelet, the runtime, or both, as kill -9 would, after every step
// of a pod's start and of its stop, and starts them again: the end is always the same
// (KBL-12, KBL-73, KBL-77, CRI-11, CRI-15). A start ends with one running container, a stop
// with no object and an empty runtime.
func TestCrashTable(t *testing.T) {
	starts := []string{"controllers CREATE web/binding", "RunPodSandbox", "CreateContainer", "StartContainer", "kubelet UPDATE web/status"}
	stops := []string{
		"client:admin DELETE web", "StopContainer", "kubelet event Normal web Killing", "StopPodSandbox", "kubelet UPDATE web/status", "kubelet DELETE web",
	}
	for _, victims := range [][]string{{"kubelet/node-1"}, {"runtime/node-1"}, {"kubelet/node-1", "runtime/node-1"}} {
		for _, after := range []time.Duration{0, 1100 * time.Microsecond} {
			for _, step := range starts {
				runCrashCase(t, "start", step, after, victims)
			}
			for _, step := range stops {
				runCrashCase(t, "stop", step, after, victims)
			}
		}
	}
}

// runCrashCase is one row of the table. During the pod's start or stop, the victims are killed some
// time after the step, and restarted seven seconds later.
func runCrashCase(t *testing.T, during, step string, after time.Duration, victims []string) {
	t.Run(fmt.Sprintf("%s %s after %v of %s", strings.Join(victims, " and "), during, after, step), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &player{t: t}
			defer p.close()
			p.runCommand("cluster")
			p.createPod(arguments{t: t, name: "web", named: map[string]string{"script": "on TERM exits 0 after 2s", "grace": "5"}})
			if during == "stop" {
				p.runCommand("wait web running")
				p.deletePod(arguments{t: t, name: "web"})
			}
			p.waitForStep(step)
			time.Sleep(after)
			for _, victim := range victims {
				p.cluster.Stop(victim)
			}
			time.Sleep(7 * time.Second)
			for i := range victims {
				p.cluster.Start(victims[len(victims)-1-i]) // the runtime first
			}
			time.Sleep(3 * time.Minute)
			p.checkConverged(during)
		})
	})
}

// waitForStep waits until the trace has the step.
func (p *player) waitForStep(step string) {
	p.t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(100 * time.Microsecond) {
		for _, done := range p.cluster.Trace().Take() {
			if strings.Contains(done.Actor+" "+done.Text, step) {
				return
			}
		}
	}
	p.t.Fatalf("a minute later, %q has not happened", step)
}

// checkConverged checks that the final state is the same as without a crash.
func (p *player) checkConverged(during string) {
	p.t.Helper()
	obj, err := p.cluster.API().Get(p.ctx, p.target("web"), metav1.GetOptions{})
	held := p.cluster.Containers("node-1")
	if during == "stop" {
		if !apierrors.IsNotFound(err) || held != "" {
			p.t.Errorf("the pod: %v; the runtime has\n%s", err, held)
		}
		return
	}
	pod, _ := obj.(*corev1.Pod)
	if err != nil || pod.Status.Phase != corev1.PodRunning || !pod.Status.ContainerStatuses[0].Ready {
		p.t.Errorf("the pod is %v, %v", stage.Summary(pod), err)
	}
	if strings.Count(held, "RUNNING") != 1 {
		p.t.Errorf("the runtime has\n%s", held)
	}
}
