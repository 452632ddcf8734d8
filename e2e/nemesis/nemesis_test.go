package nemesis

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	promises "github.com/podfall/podfall/analysis/guarantees"
	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/e2e/guarantees"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
)

var (
	seed      = flag.Uint64("seed", daySeed(clock.Clock{}.Now()), "the seed of faults and requests, by default the day's; 0 draws one")
	faults    = flag.Int("faults", 60, "how many faults have to take effect")
	reportDir = flag.String("report", "", "the directory to write the report to, also when nothing is wrong")
)

// daySeed returns a day's seed, which is also the first of TestSeeds, so that all runs of that day
// draw the same steps.
func daySeed(now time.Time) uint64 {
	return uint64(now.Unix()/int64((24*time.Hour).Seconds())) * 1000
}

// podfall is the path of the tested binary, which is built from this tree unless -podfall is set.
var podfall string

var built = flag.String("podfall", "", "the podfall to test; none builds it from this tree")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if podfall = *built; podfall != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "podfall-nemesis-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	podfall = filepath.Join(dir, "podfall")
	build := exec.Command("go", "build", "-o", podfall, "github.com/podfall/podfall/cmd/podfall")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// speed is the cluster's clock speed: an eviction after five minutes takes 15 s.
const speed = 20.0

// TestNemesis injects faults into a cluster of processes while clients use it. It ends all faults,
// waits for the desired state, and stops the cluster. Then no invariant may be violated, and every
// acknowledged write must exist. A run with too few faults fails.
func TestNemesis(t *testing.T) {
	seed := *seed
	if seed == 0 { // drawn anew in each run of -count
		seed = rand.Uint64N(1 << 32)
	}
	t.Logf("go test ./nemesis -run TestNemesis -seed %d -faults %d", seed, *faults)
	nodes := []string{"node-1", "node-2", "node-3"}
	c := up(t, "--nodes", "3", "--speed", fmt.Sprint(speed))
	t.Cleanup(func() { saveReport(t, c, seed) }) // before the cluster is stopped

	ledger := &Ledger{}
	working := &load{api: c.dial(), ledger: ledger, seed: seed, nodes: nodes}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { working.run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); clients.Wait() })
	defer stop()

	began := time.Now()
	a := &attack{
		cluster: c, reader: &history.Reader{Dir: layouts.Layout{Root: c.data}.History()},
		drawer: &Drawer{Rand: rand.New(rand.NewPCG(seed, 0)), Nodes: nodes, Speed: speed},
	}
	err := a.run(t.Context(), *faults)
	t.Logf("figures: %d steps in %v", len(a.done), time.Since(began).Round(time.Millisecond))
	stop()
	if err := errors.Join(err, a.heal(t.Context(), speed)); err != nil {
		t.Fatal(err)
	}
	working.awaitCalm(t, c)
	t.Logf("calm after %v", time.Since(began).Round(time.Millisecond))
	if out, err := c.run(t.Context(), "down"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkRun(t, c, ledger, a.done)
}

// checkRun checks the data of the stopped cluster against the invariants and the clients' ledger.
func checkRun(t *testing.T, c *cluster, ledger *Ledger, steps []Step) {
	t.Helper()
	evidence, err := guarantees.ReadEvidence(t.Context(), c.data)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(InForce(steps, evidence.Log.Events)); got < *faults {
		t.Errorf("%d of %d faults took effect, want %d: the run proves too little", got, len(steps), *faults)
	}
	results, err := promises.Check(evidence)
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, r := range results {
		if r.Err() != nil {
			t.Error(r.Err())
		}
		if r.Verdict == promises.Held {
			held++
		}
		if r.Cases == 0 && (r.ID == "A9" || r.ID == "A10") {
			t.Errorf("%s, %s, was not judged: %s", r.ID, r.Statement, r.Why)
		}
	}
	t.Logf("figures: %d events, %d promises held", len(evidence.Log.Events), held)
	var commits []history.Commit
	for _, events := range [][]history.Event{evidence.Log.Events, evidence.Store} {
		for _, e := range events {
			if commit, ok := e.Fact.(history.Commit); ok {
				commits = append(commits, commit)
			}
		}
	}
	if err := ledger.Check(commits); err != nil {
		t.Error(err)
	}
	answered, failed := ledger.Counts()
	t.Logf("figures: answered %v, not answered or refused %v", answered, failed)
	for _, verb := range []string{"create", "delete", "patch", "evict", "deletecollection"} {
		if answered[verb] == 0 {
			t.Errorf("no %s was answered: the run proves too little", verb)
		}
	}
}
