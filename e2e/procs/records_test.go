package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// Arguments that make this test's binary a program for pods that records what happens to it, or
// its hook.
const (
	recorderArgument = "be-a-witness"
	hookArgument     = "be-a-hook"
)

// beat is how often the recorder writes that it is alive.
const beat = 50 * time.Millisecond

// longGrace is the grace in seconds of a program that exits on SIGTERM, which may take a while on a
// busy machine.
const longGrace = 120

// runRecorder is that program. It exits with code some time after SIGTERM. If code is negative, it
// records the signal and continues.
func runRecorder(path string, code int) int {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGTERM)
	fmt.Fprintln(file, "begins", monotonic())
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		select {
		case <-alive.C:
			fmt.Fprintln(file, "lives", monotonic())
		case <-signals:
			fmt.Fprintln(file, "TERM", monotonic())
			if code < 0 {
				continue
			}
			for linger := time.After(beat); ; { // wait for another signal
				select {
				case <-signals:
					fmt.Fprintln(file, "TERM", monotonic())
				case <-linger:
					return code
				}
			}
		}
	}
}

// runHook is the recorder's preStop hook.
func runHook(path string, took time.Duration) int {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 1
	}
	fmt.Fprintln(file, "hook", monotonic())
	<-time.After(took)
	fmt.Fprintln(file, "hooked", monotonic())
	return 0
}

// monotonic returns CLOCK_MONOTONIC in ns, which is comparable between processes of one machine.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return now.Nano()
}

// subject is one random pod and what is known about it.
type subject struct {
	name, diary, token string
	code               int // negative for a program that ignores SIGTERM
	grace              int64
	hook               time.Duration // 0 for none
	family             string        // what else the program has started
	// deleted is the time of the delete request, killed when SIGKILL was being sent.
	deleted, killed int64
	// container is its id; ended is its exit according to the API.
	container string
	ended     *corev1.ContainerStateTerminated
}

// families returns what a program may have started: daemons that forked twice, children that ignore
// signals, zombies, and new sessions.
func families(token string) []string {
	sleep := "sleep 1000." + token
	return []string{
		"",
		"(setsid sh -c '" + sleep + " & " + sleep + "' &); ",
		"(trap '' TERM INT HUP; setsid " + sleep + " &) ; " + sleep + " & ",
		"(sh -c 'exit 3' &); (sleep 0.01 &); ",
		"(setsid env -i setsid " + sleep + " &); (" + sleep + " &); ",
	}
}

func newSubject(rng *rand.Rand, dir string, number int) *subject {
	s := &subject{
		name: fmt.Sprint("w", number), diary: filepath.Join(dir, fmt.Sprint(number)),
		token: fmt.Sprintf("%d%05d", os.Getpid(), number), grace: 1 + rng.Int64N(3), code: rng.IntN(5),
	}
	if rng.IntN(3) == 0 {
		s.code = -1
	} else {
		s.grace = longGrace
	}
	if rng.IntN(2) == 0 {
		s.hook = time.Duration(50+rng.IntN(300)) * time.Millisecond
	}
	all := families(s.token)
	s.family = all[rng.IntN(len(all))]
	return s
}

func (s *subject) pod() *corev1.Pod {
	process := "process"
	main := corev1.Container{
		Name: "main", Image: "none",
		Command: []string{"sh", "-c", s.family + "exec " + program + " " + recorderArgument + " " + s.diary + " " + strconv.Itoa(s.code)},
	}
	if s.hook > 0 {
		main.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
			Command: []string{program, hookArgument, s.diary, s.hook.String()},
		}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.name},
		Spec: corev1.PodSpec{
			RuntimeClassName: &process, RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &s.grace, Containers: []corev1.Container{main},
		},
	}
}

// runLifecycle runs and deletes the pod.
func (s *subject) runLifecycle(t *testing.T, api client, seen *watchedExits) {
	if _, err := api.Create(t.Context(), pods(s.name), s.pod(), metav1.CreateOptions{}); err != nil {
		t.Error(err)
		return
	}
	eventually(t, s.name+" begins", func() bool { return s.timesOf("begins") != nil })
	s.deleted = monotonic()
	if _, err := api.Delete(t.Context(), pods(s.name), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, s.name+" is gone", func() bool {
		_, err := api.Get(t.Context(), pods(s.name), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	eventually(t, "its end was seen", func() bool {
		s.container, s.ended = seen.exitOf(s.name)
		return s.ended != nil
	})
}

// timesOf returns the times at which the program has recorded an event.
func (s *subject) timesOf(what string) (instants []int64) {
	data, _ := os.ReadFile(s.diary)
	for line := range strings.Lines(string(data)) {
		word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instant, err := strconv.ParseInt(number, 10, 64); err == nil && word == what {
			instants = append(instants, instant)
		}
	}
	return instants
}

// watchedExits holds the exits of containers that a watch has shown.
type watchedExits struct {
	mu    sync.Mutex
	ended map[string]corev1.ContainerStatus
}

func (c *cluster) watchExits(api client) *watchedExits {
	c.t.Helper()
	seen := &watchedExits{ended: map[string]corev1.ContainerStatus{}}
	ctx, cancel := context.WithCancel(c.t.Context())
	stream, err := api.Watch(ctx, pods(""), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for event := range stream.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
				continue
			}
			seen.mu.Lock()
			seen.ended[pod.Name] = pod.Status.ContainerStatuses[0]
			seen.mu.Unlock()
		}
	})
	c.t.Cleanup(func() { cancel(); stream.Stop(); reader.Wait() })
	return seen
}

func (s *watchedExits) exitOf(name string) (string, *corev1.ContainerStateTerminated) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.ended[name]
	_, id, _ := strings.Cut(status.ContainerID, "://")
	return id, status.State.Terminated
}

// readJournal returns the shims' records by container.
func (c *cluster) readJournal() map[string][]shim.Record {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.data, "nodes", "node-1", "runtime", "signals.ndjson"))
	if err != nil {
		c.t.Fatal(err)
	}
	records := map[string][]shim.Record{}
	for line := range bytes.Lines(data) {
		var record shim.Record
		if err := json.Unmarshal(line, &record); err != nil {
			c.t.Fatalf("%q: %v", line, err)
		}
		records[record.Container] = append(records[record.Container], record)
	}
	return records
}

// timesBefore returns the times just before the shim's matching actions, timesAfter those just
// after.
func timesBefore(records []shim.Record, is func(shim.Record) bool) []int64 {
	return matchingTimes(records, func(r shim.Record) bool { return !r.Done && is(r) })
}

func timesAfter(records []shim.Record, is func(shim.Record) bool) []int64 {
	return matchingTimes(records, func(r shim.Record) bool { return r.Done && is(r) })
}

func matchingTimes(records []shim.Record, is func(shim.Record) bool) (found []int64) {
	for _, record := range records {
		if is(record) {
			found = append(found, record.Mono)
		}
	}
	return found
}

func isTerm(r shim.Record) bool { return r.Signal == "SIGTERM" }
func isKill(r shim.Record) bool { return r.Signal == "SIGKILL" }
func isExec(r shim.Record) bool { return r.Exec != "" }

// checkAgreement compares the shim's records of one pod with the program's own, and returns how
// late SIGKILL was.
func (s *subject) checkAgreement(t *testing.T, records []shim.Record, m *machine) (late time.Duration) {
	t.Helper()
	sent, delivered, received := timesBefore(records, isTerm), timesAfter(records, isTerm), s.timesOf("TERM")
	if len(sent) != 1 || len(delivered) != 1 || len(received) != 1 && !s.wasStarved(records) {
		t.Errorf("K6: %s was sent SIGTERM %d times and heard it %d times", s.name, len(sent), len(received))
		return 0
	}
	if len(received) > 0 && received[0] < sent[0] {
		t.Errorf("%s heard SIGTERM before it was sent", s.name)
	}
	if hooks := s.timesOf("hook"); s.hook > 0 && !s.graceIsOver(sent[0]) {
		hooked, recorded := s.timesOf("hooked"), timesAfter(records, isExec)
		if len(hooks) != 1 || len(hooked) != 1 || len(recorded) != 1 || hooked[0] > sent[0] || recorded[0] > sent[0] {
			t.Errorf("K1: %s: SIGTERM at %d, hook from %v to %v, according to the shim until %v", s.name, sent[0], hooks, hooked, recorded)
		}
	}
	killed, lives := timesBefore(records, isKill), append(s.timesOf("begins"), s.timesOf("lives")...)
	if s.code >= 0 {
		if len(killed) > 0 || s.ended.ExitCode != int32(s.code) {
			t.Errorf("%s exits with %d after SIGTERM; it was killed at %v and ended with %d", s.name, s.code, killed, s.ended.ExitCode)
		}
		return 0
	}
	if len(killed) == 0 || killed[0] < sent[0] || s.ended.ExitCode != 137 {
		t.Errorf("K2: %s ignores SIGTERM at %d; it was killed at %v and ended with %d", s.name, sent[0], killed, s.ended.ExitCode)
		return 0
	}
	// The kubelet takes the whole seconds of the hook off the grace (KBL-33).
	before := time.Duration(sent[0] - s.deleted).Truncate(time.Second)
	bound := sent[0] + max(2*time.Second, time.Duration(s.grace)*time.Second-before).Nanoseconds()
	if killed[0] < bound {
		t.Errorf("K3: %s was killed %v too early", s.name, time.Duration(bound-killed[0]))
	}
	// Between its last beat and the signal it may have been silent for one beat.
	last, after := lives[len(lives)-1], timesAfter(records, isKill)
	if silent := time.Duration(killed[0] - last); silent > time.Second+m.maxDelay(last, killed[0]) || last > after[0]+beat.Nanoseconds() {
		t.Errorf("%s was killed from %d to %d, and lived last at %d", s.name, killed[0], after[0], last)
	}
	s.killed = killed[0]
	return time.Duration(killed[0]-sent[0]) - max(2*time.Second, time.Duration(s.grace)*time.Second-hookDuration(records))
}

// wasStarved reports whether a program that ignores SIGTERM got no processor between SIGTERM and
// SIGKILL. Then it recorded neither the signal nor a beat.
func (s *subject) wasStarved(records []shim.Record) bool {
	recorded, killed := timesAfter(records, isTerm), timesBefore(records, isKill)
	if s.code >= 0 || len(recorded) == 0 || len(killed) == 0 || len(s.timesOf("TERM")) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.timesOf("lives"), func(at int64) bool { return at > recorded[0] && at < killed[0] })
}

// graceIsOver reports whether the grace was over at a time. Then no hook is awaited.
func (s *subject) graceIsOver(at int64) bool {
	return at-s.deleted >= (time.Duration(s.grace) * time.Second).Nanoseconds()
}

// hookDuration returns how long the hook ran in whole seconds, according to the shim.
func hookDuration(records []shim.Record) time.Duration {
	begun, ended := timesBefore(records, isExec), timesAfter(records, isExec)
	if len(begun) == 0 || len(ended) == 0 {
		return 0
	}
	return time.Duration(ended[0] - begun[0]).Truncate(time.Second)
}

// TestShimRecordsMatchPrograms runs random programs: with daemons, zombies, children that ignore
// signals, hooks, with and without a SIGTERM handler. The shims' records must match the programs'
// own records (K1 to K6) and exit codes, and no process may be left.
func TestShimRecordsMatchPrograms(t *testing.T) {
	for _, isolation := range []string{"auto", "none"} {
		t.Run("isolation="+isolation, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(testSeed(t), 0))
			c, _ := upWithPrograms(t, "--isolation", isolation)
			api, dir, machine := c.dial(), sharedDir(t), watchMachine(t)
			seen := c.watchExits(api)
			subjects := make([]*subject, *rounds)
			for i := range subjects {
				subjects[i] = newSubject(rng, dir, i)
			}
			queue := make(chan *subject)
			var running sync.WaitGroup
			for range 8 {
				running.Go(func() {
					for s := range queue {
						s.runLifecycle(t, api, seen)
					}
				})
			}
			for _, s := range subjects {
				queue <- s
			}
			close(queue)
			running.Wait()
			checkSubjects(t, subjects, c.readJournal(), machine)
		})
	}
}

// checkSubjects checks all subjects after they are gone.
func checkSubjects(t *testing.T, subjects []*subject, records map[string][]shim.Record, m *machine) {
	t.Helper()
	for _, s := range subjects {
		m.addBeats(s.timesOf("lives"))
	}
	var late []time.Duration
	for _, s := range subjects {
		if s.ended == nil {
			t.Errorf("nobody has seen the end of %s", s.name)
			continue
		}
		if by := s.checkAgreement(t, records[s.container], m); by > 0 {
			s.checkKillTime(t, by, m)
			late = append(late, by)
		}
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		for _, s := range subjects {
			if bytes.Contains(line, []byte("1000."+s.token)) || bytes.Contains(line, []byte(s.diary+"\x00")) {
				t.Errorf("%s is left of %s (%s): %q", path, s.name, s.family, line)
			}
		}
	}
	if slices.Sort(late); len(late) > 0 {
		t.Logf("figures: %d pods, %d of them killed: late by %v at the median, %v for 95 of 100, %v at most",
			len(subjects), len(late), late[len(late)/2], late[len(late)*95/100], late[len(late)-1])
	}
}
