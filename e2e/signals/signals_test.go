// Package signals compares what runtimes have recorded about scripted containers with what the
// containers themselves have logged, in virtual time. Package e2e/procs does the same with real
// programs.
package signals

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/runtime/store"
)

var (
	number = flag.Int("pods", 100, "how many random pods")
	seed   = flag.Uint64("seed", 0, "what they are drawn from; 0 draws one")
)

// herd is how many pods run at the same time.
const herd = 50

// subject is one random pod, and what its container has recorded.
type subject struct {
	name     string
	script   string
	ignores  bool
	grace    time.Duration
	hook     time.Duration
	deleted  time.Time
	recorded map[string]time.Time
}

func newSubject(rng *rand.Rand, number int) *subject {
	grace := 1 + rng.IntN(6)
	s := &subject{
		name: fmt.Sprint("w", number), grace: time.Duration(grace) * time.Second, hook: time.Duration(rng.IntN(grace)) * time.Second,
		script: fmt.Sprintf("on TERM exits %d after %dms", rng.IntN(5), 300+rng.IntN(700)), recorded: map[string]time.Time{},
	}
	if s.ignores = rng.IntN(2) == 0; s.ignores {
		s.script = "ignores TERM"
	}
	return s
}

func (s *subject) pod() *corev1.Pod {
	grace := int64(s.grace / time.Second)
	main := corev1.Container{Name: "main", Image: "none"}
	if s.hook > 0 {
		main.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(s.hook / time.Second)}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.name, Annotations: map[string]string{"script.podfall.io/main": s.script}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{main},
		},
	}
}

func pods(name string) podapi.Target {
	kind, _ := kinds.ByResource("pods")
	return podapi.Target{Kind: kind, Namespace: "default", Name: name}
}

// TestRuntimeRecordsMatchContainers: a container receives exactly the signals that its runtime has
// recorded, at the same times. The hook comes before SIGTERM, SIGTERM before SIGKILL, and SIGKILL
// never early (K1 to K6).
func TestRuntimeRecordsMatchContainers(t *testing.T) {
	seed := *seed
	if seed == 0 { // drawn anew in each run of -count
		seed = rand.Uint64()
	}
	t.Logf("figures: %d pods, seed %d", *number, seed)
	t.Logf("go test ./witness -run TestWitnesses -seed %d -pods %d", seed, *number)
	rng := rand.New(rand.NewPCG(seed, 0))
	for first := 0; first < *number; first += herd {
		subjects := map[string]*subject{}
		for i := range min(herd, *number-first) {
			s := newSubject(rng, first+i)
			subjects["default/"+s.name] = s
		}
		synctest.Test(t, func(t *testing.T) { runLifecycles(t, subjects) })
	}
}

// runLifecycles runs and deletes pods concurrently, and checks each.
func runLifecycles(t *testing.T, subjects map[string]*subject) {
	c := stage.New(t, stage.Config{Nodes: 1})
	runtime := c.Observe("node-1")
	for _, s := range subjects {
		if _, err := c.API().Create(t.Context(), pods(s.name), s.pod(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(30 * time.Second)
	for _, s := range subjects {
		s.deleted = time.Now()
		if _, err := c.API().Delete(t.Context(), pods(s.name), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 { // until long after the last pod must be gone
		time.Sleep(200 * time.Millisecond)
		readLogs(t, runtime, subjects)
	}
	if left := c.Containers("node-1"); left != "" {
		t.Errorf("these are left:\n%s", left)
	}
	sent := map[string][]store.Entry{}
	for _, entry := range c.Signals("node-1") {
		sent[entry.Pod] = append(sent[entry.Pod], entry)
	}
	for name, s := range subjects {
		s.check(t, sent[name])
	}
}

// readLogs reads every container's log: a line with a time for each event.
func readLogs(t *testing.T, runtime *runtimeapi.Client, subjects map[string]*subject) {
	t.Helper()
	containers, err := runtime.ListContainers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, container := range containers {
		s := subjects["default/"+container.Labels["io.kubernetes.pod.name"]]
		log, err := runtime.ContainerLogs(t.Context(), &proto.ContainerLogsRequest{ContainerId: container.Id, Timestamps: true})
		if err != nil {
			continue // removed meanwhile
		}
		for line := range strings.Lines(string(log)) {
			at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			instant, err := time.Parse(time.RFC3339Nano, at)
			if err != nil {
				t.Fatal(err)
			}
			s.recorded[what] = instant
		}
		if container.State == proto.ContainerState_CONTAINER_STATE_EXITED {
			s.recorded[fmt.Sprint("ended ", container.ExitCode)] = time.Unix(0, container.FinishedAtUnixNano)
		}
	}
}

// check compares the runtime's record of one pod with the container's own.
func (s *subject) check(t *testing.T, sent []store.Entry) {
	t.Helper()
	var terms, kills []time.Time
	for _, entry := range sent {
		at := time.Unix(0, entry.At)
		switch entry.Signal {
		case "SIGTERM":
			terms = append(terms, at)
		case "SIGKILL":
			kills = append(kills, at)
		default:
			t.Errorf("%s was sent %s", s.name, entry.Signal)
		}
	}
	heard := s.recorded["got TERM"]
	if s.ignores {
		heard = s.recorded["got TERM, ignored it"]
	}
	if len(terms) != 1 || !heard.Equal(terms[0]) {
		t.Errorf("K6: %s was sent SIGTERM at %v and heard it at %v", s.name, terms, heard)
		return
	}
	if waited := terms[0].Sub(s.deleted); waited < min(s.hook, s.grace) {
		t.Errorf("K1: %s was sent SIGTERM %v after its delete, its hook takes %v of a grace of %v", s.name, waited, s.hook, s.grace)
	}
	bound := max(2*time.Second, s.grace-s.hook)
	switch {
	case !s.ignores && len(kills) > 0:
		t.Errorf("K2: %s ends on SIGTERM, and was killed at %v", s.name, kills)
	case s.ignores && len(kills) == 0:
		t.Errorf("K4: %s ignores SIGTERM, and was never killed", s.name)
	case s.ignores && kills[0].Sub(terms[0]) < bound:
		t.Errorf("K3: %s was killed %v after SIGTERM, its grace was %v", s.name, kills[0].Sub(terms[0]), bound)
	case s.ignores && kills[0].Sub(terms[0]) > bound+100*time.Millisecond:
		t.Errorf("K4: %s was killed %v after SIGTERM, its grace was %v", s.name, kills[0].Sub(terms[0]), bound)
	}
}
