//go:build unix

package store_test

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/services/apiserver/store"
)

var killCount = flag.Int("kills", 300, "times that TestKilled kills a store")

const (
	killEnv     = "STORE_TEST_KILL" // path of the child of TestKilled
	killWorkers = 4
	killHistory = 1000
)

// acknowledged is one acknowledged write of TestKilled's child: worker w writes the pod web-w again
// and again, with the next number each time.
type acknowledged struct {
	worker, number int
	revision       int64
}

// kill -9 of the process that has the store, in the midst of its writes and of its start:
// every write that it has acknowledged is there, at the revision that it was given, and
// later ones get later revisions (A1, A3). Each round goes on with the same file.
func TestKilled(t *testing.T) {
	if path := os.Getenv(killEnv); path != "" {
		writeUntilKilled(t, path)
		return
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	rng := rand.New(rand.NewPCG(8, 9))
	acknowledged, last := 0, int64(1)
	numbers := [killWorkers]int{}
	for round := range *killCount {
		answers := killAfter(t, path, rng.IntN(120))
		acknowledged += len(answers)
		s := reopen(t, path)
		for _, a := range answers {
			if a.revision <= last {
				t.Errorf("%s: round %d: revision %d, the store had reached %d", guarantees.Title("A3"), round, a.revision, last)
			}
			numbers[a.worker] = max(numbers[a.worker], a.number)
		}
		checkAnswers(t, s, answers)
		for w := range killWorkers {
			have := numberOf(t, s, w)
			if have < numbers[w] || have > numbers[w]+1 {
				t.Errorf("%s: round %d: worker %d was told of write %d, the store has %d", guarantees.Title("A1"), round, w, numbers[w], have)
			}
			numbers[w] = have
		}
		last = s.Snapshot().Revision()
		closeIt(t, s)
		if t.Failed() {
			t.Fatalf("round %d, %d writes acknowledged", round, len(answers))
		}
	}
	t.Logf("figures: %d kills, %d acknowledged writes, revision %d", *killCount, acknowledged, last)
	if acknowledged == 0 {
		t.Error("nothing was ever acknowledged")
	}
}

func reopen(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: path, NoSync: true, History: killHistory})
	if err != nil {
		t.Fatalf("a kill damaged the file: %v", err)
	}
	return s
}

// killAfter starts the child, kills it once it has acknowledged so many writes, and
// returns all that it has acknowledged by then.
func killAfter(t *testing.T, path string, enough int) (answers []acknowledged) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), killEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := func() {
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a acknowledged
		text, ours := strings.CutPrefix(lines.Text(), "acknowledged ")
		switch {
		case lines.Text() == "starting" && enough == 0:
			kill()
		case ours:
			if n, err := fmt.Sscan(text, &a.worker, &a.number, &a.revision); n == 3 && err == nil {
				answers = append(answers, a)
			}
			if len(answers) == enough {
				kill()
			}
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() != -1 {
		t.Fatalf("it was not killed but ended by itself: %v", err)
	}
	return answers
}

// checkAnswers finds each acknowledged write in the history, unless it was compacted.
func checkAnswers(t *testing.T, s *store.Store, answers []acknowledged) {
	t.Helper()
	events, err := s.Since(s.Oldest() - 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.revision < s.Oldest() {
			continue
		}
		if a.revision > s.Snapshot().Revision() {
			t.Errorf("%s: write %d of worker %d at revision %d", guarantees.Title("A1"), a.number, a.worker, a.revision)
			continue
		}
		e := events[a.revision-s.Oldest()]
		if e.Revision != a.revision || e.Record.Key.Name != fmt.Sprint("web-", a.worker) || contentOf(t, e.Record) != a.number {
			t.Errorf("revision %d is %s with %d, and was acknowledged as write %d of worker %d",
				e.Revision, e.Record.Key, contentOf(t, e.Record), a.number, a.worker)
		}
	}
}

// numberOf is the number of the worker's last write that the store has.
func numberOf(t *testing.T, s *store.Store, worker int) int {
	t.Helper()
	record := s.Snapshot().Get(store.Key{Resource: "pods", Namespace: "default", Name: fmt.Sprint("web-", worker)})
	if record == nil {
		return 0
	}
	return contentOf(t, record)
}

// contentOf is the number that a worker has written.
func contentOf(t *testing.T, record *store.Record) (number int) {
	t.Helper()
	pod, ok := record.Object.(*corev1.Pod)
	if !ok {
		t.Fatalf("%s is a %T", record.Key, record.Object)
	}
	if _, err := fmt.Sscan(pod.Spec.NodeName, &number); err != nil {
		t.Fatal(err)
	}
	return number
}

func writeUntilKilled(t *testing.T, path string) {
	fmt.Println("starting")
	s, _ := start(t, store.Config{Path: path, History: killHistory})
	var group sync.WaitGroup
	for w := range killWorkers {
		group.Go(func() {
			for number := numberOf(t, s, w) + 1; ; number++ {
				events, err := s.Commit(t.Context(), store.Commit{Writes: []store.Write{write(small(fmt.Sprint("web-", w), fmt.Sprint(number)), store.Any)}})
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Println("acknowledged", w, number, events[0].Revision)
			}
		})
	}
	group.Wait()
}
