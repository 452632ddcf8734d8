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

// runLifecycle runs and deletes a pod of real programs with the given spec, and returns its last
// state. A finalizer keeps the pod until then. The delete waits until the programs' diaries have
// begun, because only then do they handle signals.
func (c *cluster) runLifecycle(api client, name, spec string, diaries ...string) (*corev1.Pod, int64) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, finalizers: [ex.io/x]}
spec:
  runtimeClassName: process
%s`, name, spec))
	c.must("wait", "--for=condition=Ready", "pod/"+name, waitFlag)
	for _, diary := range diaries {
		eventually(c.t, diary+" tells of the beginning", func() bool { return (&subject{diary: diary}).timesOf("begins") != nil })
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

// describeExit describes how a pod and its containers ended.
func describeExit(pod *corev1.Pod) string {
	text := string(pod.Status.Phase)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if ended := status.State.Terminated; ended != nil {
			text += fmt.Sprintf(" %s=%d %s", status.Name, ended.ExitCode, ended.Reason)
		}
	}
	return text
}

// shimRecords returns the shim's journal records of a container.
func (c *cluster) shimRecords(pod *corev1.Pod, name string) []shim.Record {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == name {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return c.readJournal()[id]
		}
	}
	return nil
}

// TestProgramsEnd checks exit codes with real programs, as the stories do (TD-092 to TD-094,
// TD-099).
func TestProgramsEnd(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t)
	api, dir := c.dial(), sharedDir(t)
	const short = 2 // grace of a program that is to be killed
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
		"td-092-always-0":   {spec("Always", longGrace, "", clean), "Succeeded main=0 Completed"},
		"td-092-failure-0":  {spec("OnFailure", longGrace, "", clean), "Succeeded main=0 Completed"},
		"td-092-never-0":    {spec("Never", longGrace, "", clean), "Succeeded main=0 Completed"},
		"td-093":            {spec("Never", short, "", deaf), "Failed main=137 Error"},
		"td-094":            {spec("Never", longGrace, "", "trap 'exit 3' TERM; "+loop), "Failed main=3 Error"},
		"td-099": {
			spec("Never", longGrace, "lifecycle: {stopSignal: SIGUSR1},", "trap 'exit 7' USR1; trap 'exit 9' TERM; "+loop),
			"Failed main=7 Error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, diary := &cluster{t: t, data: c.data}, filepath.Join(dir, name)
			pod, _ := c.runLifecycle(api, name, strings.ReplaceAll(row.spec, "$0", diary), diary)
			if got := describeExit(pod); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestProgramsAreStoppedInOrder checks hooks and sidecars with real programs, as the stories do
// (TRC-03, 04 and 28).
func TestProgramsAreStoppedInOrder(t *testing.T) {
	t.Parallel()
	c, self := upWithPrograms(t)
	api, dir := c.dial(), sharedDir(t)
	witnessed := func(name string, code int) string {
		return fmt.Sprintf("image: none, command: [%s, %s, %s, %q]", self, recorderArgument, filepath.Join(dir, name), fmt.Sprint(code))
	}
	received := func(name string) int64 {
		instants := (&subject{diary: filepath.Join(dir, name)}).timesOf("TERM")
		if len(instants) != 1 {
			t.Fatalf("%s heard SIGTERM %d times", name, len(instants))
		}
		return instants[0]
	}
	after := func(began, instant int64) time.Duration { return time.Duration(instant - began) }

	pod, began := c.runLifecycle(api, "trc-03", fmt.Sprintf(`
  restartPolicy: Never
  terminationGracePeriodSeconds: %d
  containers:
  - {name: main, lifecycle: {preStop: {sleep: {seconds: 3}}}, %s}
`, longGrace, witnessed("trc-03", 0)), filepath.Join(dir, "trc-03"))
	if got, recorded := describeExit(pod), after(began, received("trc-03")); got != "Succeeded main=0 Completed" || recorded < 3*time.Second {
		t.Errorf("TRC-03: it ended as %q, and was told after %v, want after the 3 s of its hook", got, recorded)
	}

	pod, began = c.runLifecycle(api, "trc-04", fmt.Sprintf(`
  restartPolicy: Never
  terminationGracePeriodSeconds: 3
  containers:
  - {name: main, lifecycle: {preStop: {exec: {command: [/bin/sleep, "1000"]}}}, %s}
`, witnessed("trc-04", -1)), filepath.Join(dir, "trc-04"))
	records := c.shimRecords(pod, "main")
	sent, killed := timesBefore(records, isTerm), timesBefore(records, isKill)
	if got := describeExit(pod); got != "Failed main=137 Error" || len(sent) != 1 || after(began, sent[0]) < 3*time.Second ||
		len(killed) == 0 || after(sent[0], killed[0]) < 2*time.Second {
		t.Errorf("TRC-04: it ended as %q, was sent SIGTERM at %v and killed at %v, from %d on: want it told after its grace of 3 s, and killed 2 s later",
			got, sent, killed, began)
	}
	deaf := &subject{diary: filepath.Join(dir, "trc-04"), code: -1}
	if recorded := deaf.timesOf("TERM"); !deaf.wasStarved(records) && (len(recorded) != 1 || recorded[0] < sent[0]) { // the signal may have been handled late, or never
		t.Errorf("TRC-04: it was sent SIGTERM at %v, and heard it at %v", sent, recorded)
	}

	pod, _ = c.runLifecycle(api, "trc-28", fmt.Sprintf(`
  restartPolicy: Never
  terminationGracePeriodSeconds: %d
  initContainers:
  - {name: s1, restartPolicy: Always, %s}
  - {name: s2, restartPolicy: Always, %s}
  containers:
  - {name: main, %s}
`, longGrace, witnessed("s1", 3), witnessed("s2", 4), witnessed("main", 0)), filepath.Join(dir, "s1"), filepath.Join(dir, "s2"), filepath.Join(dir, "main"))
	if got := describeExit(pod); got != "Succeeded s1=3 Error s2=4 Error main=0 Completed" {
		t.Errorf("TRC-28: it ended as %q", got)
	}
	if main, s2, s1 := received("main"), received("s2"), received("s1"); main > s2 || s2 > s1 {
		t.Errorf("TRC-28: main heard SIGTERM at %d, s2 at %d and s1 at %d, want them in this order", main, s2, s1)
	}
}

// TestTRC25ProgramRefused: a program that requests more CPU than its node has is never started, and
// its pod goes at once.
func TestTRC25ProgramRefused(t *testing.T) {
	t.Parallel()
	c, self := upWithPrograms(t)
	path := filepath.Join(sharedDir(t), "diary")
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: node-1
  runtimeClassName: process
  containers:
  - {name: main, image: none, command: [%s, %s, %s], resources: {requests: {cpu: 100}}}
`, self, serverArgument, path))
	c.must("wait", "--for=jsonpath={.status.reason}=OutOfcpu", "pod/web", waitFlag)
	stop := c.watchPod()
	c.must("delete", "pod", "web")
	wantRows(t, stop(), "ADDED web 0/1 OutOfcpu", "MODIFIED web 0/1 OutOfcpu", "DELETED web 0/1 OutOfcpu")
	if got := readDiary(t, path); len(got) > 1 || got[0] != "" {
		t.Errorf("it ran: %q", got)
	}
}
