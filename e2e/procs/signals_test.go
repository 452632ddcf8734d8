package procs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// lived takes a pod of real programs whose specification is spec through its life, and
// returns it as it was when it had ended. A finalizer keeps it until then. It is deleted once
// its programs have written into their diaries that they begin: from then on they hear signals.
func (c *cluster) lived(api client, name, spec string, diaries ...string) (*corev1.Pod, int64) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, finalizers: [ex.io/x]}
spec:
  runtimeClassName: process
%s`, name, spec))
	c.must("wait", "--for=condition=Ready", "pod/"+name, waits)
	for _, diary := range diaries {
		eventually(c.t, diary+" tells of the beginning", func() bool { return (&subject{diary: diary}).when("begins") != nil })
	}
	began := monotonic()
	c.must("delete", "pod", name, "--wait=false")
	var pod *corev1.Pod
	eventually(c.t, name+" has ended", func() bool {
		obj, err := api.Get(c.t.Context(), pods(name), metav1.GetOptions{})
		ended, is := obj.(*corev1.Pod)
		pod = ended
		return err == nil && is && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
	})
	c.must("patch", "pod", name, "-p", `{"metadata":{"finalizers":null}}`)
	return pod, began
}

// how says how a pod and its containers have ended.
func how(pod *corev1.Pod) string {
	text := string(pod.Status.Phase)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := status.State.Terminated; ended != nil {
			text += fmt.Sprintf(" %s=%d %s", status.Name, ended.ExitCode, ended.Reason)
		}
	}
	return text
}

// records are what the shim of a pod's container says, by the container's name.
func (c *cluster) records(pod *corev1.Pod, name string) []shim.Record {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == name {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return c.journal()[id]
		}
	}
	return nil
}

// TestProgramsEnd has what stories tell of exit codes, with real programs (TD-092 to TD-094,
// TD-099).
func TestProgramsEnd(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t)
	api, dir := c.dial(), shared(t)
	const short = 2 // of a program that is to be killed; one that ends by itself has time to
	spec := func(policy string, grace int, more, script string) string {
		return fmt.Sprintf(`
  restartPolicy: %s
  terminationGracePeriodSeconds: %d
  os: {name: linux}
  containers:
  - {name: main, image: none, %s command: [/bin/sh, -c, %q]}
`, policy, grace, more, script)
	}
	const (
		begin = "echo begins 1 > $0; "
		sleep = begin + "exec sleep 1800"
		loop  = begin + "while :; do sleep 0.1; done"
		deaf  = "trap '' TERM; " + loop
		clean = "trap 'exit 0' TERM; " + loop
	)
	for name, row := range map[string]struct{ spec, want string }{
		"td-092-always":     {spec("Always", short, "", sleep), "Failed main=137 Error"},
		"td-092-on-failure": {spec("OnFailure", short, "", sleep), "Failed main=137 Error"},
		"td-092-never":      {spec("Never", short, "", sleep), "Failed main=137 Error"},
		"td-092-always-0":   {spec("Always", ample, "", clean), "Succeeded main=0 Completed"},
		"td-092-failure-0":  {spec("OnFailure", ample, "", clean), "Succeeded main=0 Completed"},
		"td-092-never-0":    {spec("Never", ample, "", clean), "Succeeded main=0 Completed"},
		"td-093":            {spec("Never", short, "", deaf), "Failed main=137 Error"},
		"td-094":            {spec("Never", ample, "", "trap 'exit 3' TERM; "+loop), "Failed main=3 Error"},
		"td-099": {
			spec("Never", ample, "lifecycle: {stopSignal: SIGUSR1},", "trap 'exit 7' USR1; trap 'exit 9' TERM; "+loop),
			"Failed main=7 Error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, diary := &cluster{t: t, data: c.data}, filepath.Join(dir, name)
			pod, _ := c.lived(api, name, strings.ReplaceAll(row.spec, "$0", diary), diary)
			if got := how(pod); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestProgramsAreStoppedInOrder has what stories tell of hooks and sidecars, with real
// programs (TRC-03, 04 and 28).
func TestProgramsAreStoppedInOrder(t *testing.T) {
	t.Parallel()
	c, self := upWithPrograms(t)
	api, dir := c.dial(), shared(t)
	witnessed := func(name string, code int) string {
		return fmt.Sprintf("image: none, command: [%s, %s, %s, %q]", self, beAWitness, filepath.Join(dir, name), fmt.Sprint(code))
	}
	heard := func(name string) int64 {
		instants := (&subject{diary: filepath.Join(dir, name)}).when("TERM")
		if len(instants) != 1 {
			t.Fatalf("%s heard SIGTERM %d times", name, len(instants))
		}
		return instants[0]
	}
	after := func(began, instant int64) time.Duration { return time.Duration(instant - began) }

	pod, began := c.lived(api, "trc-03", fmt.Sprintf(`
  restartPolicy: Never
  terminationGracePeriodSeconds: %d
  containers:
  - {name: main, lifecycle: {preStop: {sleep: {seconds: 3}}}, %s}
`, ample, witnessed("trc-03", 0)), filepath.Join(dir, "trc-03"))
	if got, told := how(pod), after(began, heard("trc-03")); got != "Succeeded main=0 Completed" || told < 3*time.Second {
		t.Errorf("TRC-03: it ended as %q, and was told after %v, want after the 3 s of its hook", got, told)
	}

	pod, began = c.lived(api, "trc-04", fmt.Sprintf(`
  restartPolicy: Never
  terminationGracePeriodSeconds: 3
  containers:
  - {name: main, lifecycle: {preStop: {exec: {command: [/bin/sleep, "1000"]}}}, %s}
`, witnessed("trc-04", -1)), filepath.Join(dir, "trc-04"))
	records := c.records(pod, "main")
	sent, killed := asked(records, term), asked(records, kill)
	if got := how(pod); got != "Failed main=137 Error" || len(sent) != 1 || after(began, sent[0]) < 3*time.Second ||
		len(killed) == 0 || after(sent[0], killed[0]) < 2*time.Second {
		t.Errorf("TRC-04: it ended as %q, was sent SIGTERM at %v and killed at %v, from %d on: want it told after its grace of 3 s, and killed 2 s later",
			got, sent, killed, began)
	}
	deaf := &subject{diary: filepath.Join(dir, "trc-04"), code: -1}
	if told := deaf.when("TERM"); !deaf.unheard(records) && (len(told) != 1 || told[0] < sent[0]) { // it may have heard late, or never
		t.Errorf("TRC-04: it was sent SIGTERM at %v, and heard it at %v", sent, told)
	}

	pod, _ = c.lived(api, "trc-28", fmt.Sprintf(`
  restartPolicy: Never
  terminationGracePeriodSeconds: %d
  initContainers:
  - {name: s1, restartPolicy: Always, %s}
  - {name: s2, restartPolicy: Always, %s}
  containers:
  - {name: main, %s}
`, ample, witnessed("s1", 3), witnessed("s2", 4), witnessed("main", 0)), filepath.Join(dir, "s1"), filepath.Join(dir, "s2"), filepath.Join(dir, "main"))
	if got := how(pod); got != "Succeeded s1=3 Error s2=4 Error main=0 Completed" {
		t.Errorf("TRC-28: it ended as %q", got)
	}
	if main, s2, s1 := heard("main"), heard("s2"), heard("s1"); main > s2 || s2 > s1 {
		t.Errorf("TRC-28: main heard SIGTERM at %d, s2 at %d and s1 at %d, want them in this order", main, s2, s1)
	}
}

// TestTRC25ProgramRefused has a program that its node has no processors for: it is never
// started, and its pod goes at once.
func TestTRC25ProgramRefused(t *testing.T) {
	t.Parallel()
	c, self := upWithPrograms(t)
	path := filepath.Join(shared(t), "diary")
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: node-1
  runtimeClassName: process
  containers:
  - {name: main, image: none, command: [%s, %s, %s], resources: {requests: {cpu: 100}}}
`, self, beAServer, path))
	c.must("wait", "--for=jsonpath={.status.reason}=OutOfcpu", "pod/web", waits)
	stop := c.watching()
	c.must("delete", "pod", "web")
	check(t, stop(), "ADDED web 0/1 OutOfcpu", "MODIFIED web 0/1 OutOfcpu", "DELETED web 0/1 OutOfcpu")
	if got := diary(t, path); len(got) > 1 || got[0] != "" {
		t.Errorf("it ran: %q", got)
	}
}
