package procs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// step is a point in a pod's lifecycle at which a process is killed.
type step struct {
	name string
	// stopping means that the step comes after the delete.
	stopping bool
	// reached reports whether the pod is at the step.
	reached func(c *cluster, s *subject) bool
}

// runtimeLogged is a step that the node's runtime has logged for the pod.
func runtimeLogged(what string) func(*cluster, *subject) bool {
	return func(c *cluster, s *subject) bool {
		for line := range strings.Lines(c.readLog("runtime-node-1")) {
			if strings.Contains(line, what) && strings.Contains(line, "pod=default/"+s.name+" ") {
				return true
			}
		}
		return false
	}
}

// programLogged is a step that the program has recorded.
func programLogged(what string) func(*cluster, *subject) bool {
	return func(_ *cluster, s *subject) bool { return s.timesOf(what) != nil }
}

func immediately(*cluster, *subject) bool { return true }

// steps returns the steps of a pod of each engine.
func steps(engine string) []step {
	common := []step{
		{"created", false, immediately},
		{"the start is on record", false, runtimeLogged("container started")},
		{"deleted", true, immediately},
		{"the signal is on record", true, runtimeLogged("signal sent")},
		{"the exit is on record", true, runtimeLogged("container exited")},
	}
	if engine == "scripted" {
		return common
	}
	return append(common,
		step{"the program begins", false, programLogged("begins")}, step{"the hook begins", true, programLogged("hook")},
		step{"the hook ends", true, programLogged("hooked")}, step{"the program hears SIGTERM", true, programLogged("TERM")},
	)
}

// TestKilledAtEveryStep kills the runtime, the kubelet or both with SIGKILL at every step of a
// pod's start and stop. After their restart the pod runs, or goes. SIGTERM arrives once, nothing
// starts again after it, and nothing is left.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	c, _ := upWithPrograms(t)
	api, dir, number := c.dial(), sharedDir(t), 0
	for _, engine := range []string{"process", "scripted"} {
		for _, step := range steps(engine) {
			choices := [][]string{{"runtime/node-1"}, {"kubelet/node-1"}, {"runtime/node-1", "kubelet/node-1"}}
			if *rounds < 100 {
				choices = choices[rng.IntN(3):][:1]
			}
			for _, victims := range choices {
				number++
				s := newSubject(rng, dir, number)
				s.hook, s.code, s.grace = 200*time.Millisecond, max(s.code, 0), longGrace
				c.killAtStep(api, s, engine, step, victims)
				if t.Failed() {
					t.Fatalf("%s pod, %s, after kill -9 of %v", engine, step.name, victims)
				}
			}
		}
	}
}

// killAtStep runs one pod's lifecycle, with a kill at one step.
func (c *cluster) killAtStep(api client, s *subject, engine string, step step, victims []string) {
	c.t.Helper()
	crash := func(now bool) {
		if now {
			eventually(c.t, step.name, func() bool { return step.reached(c, s) })
			c.kill(victims...)
			c.must("up", "--detach")
		}
	}
	pod := s.pod()
	pod.Spec.RestartPolicy = ""
	if engine == "scripted" {
		pod.Spec.RuntimeClassName, pod.Spec.Containers[0].Lifecycle = nil, nil
		pod.Annotations = map[string]string{"script.podfall.io/main": "starts after 200ms, on TERM exits 0 after 300ms"}
	}
	if _, err := api.Create(c.t.Context(), pods(s.name), pod, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	crash(!step.stopping)
	c.must("wait", "--for=condition=Ready", "pod/"+s.name, waitFlag)
	if engine == "process" {
		eventually(c.t, "the program begins", func() bool { return s.timesOf("begins") != nil })
	}
	begun := len(s.timesOf("begins"))
	if _, err := api.Delete(c.t.Context(), pods(s.name), metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	crash(step.stopping)
	eventually(c.t, s.name+" is gone", func() bool {
		_, err := api.Get(c.t.Context(), pods(s.name), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if engine == "process" {
		if received, again := s.timesOf("TERM"), s.timesOf("begins"); len(received) != 1 || len(again) != begun {
			c.t.Errorf("it heard SIGTERM %d times, and began %d times, then %d", len(received), begun, len(again))
		}
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if line, _ := os.ReadFile(path); bytes.Contains(line, []byte("1000."+s.token)) || bytes.Contains(line, []byte(s.diary+"\x00")) {
			c.t.Errorf("left: %q", line)
		}
	}
}
