package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/e2e/stage"
)

var (
	requests = flag.Int("requests", 100_000, "how many random requests")
	seed     = flag.Uint64("seed", 0, "the first seed; 0 draws one")
)

// TestModelAgrees sends the same random requests to the model and to a real apiserver
// and compares every answer: its code and reason, and each field of the object that the
// rules of deletion touch.
func TestModelAgrees(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	const runs = 10
	codes := map[string]int{}
	for run := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			compareAnswers(t, first+run, *requests/runs, codes)
		})
		if t.Failed() {
			t.Logf("replay: go test ./e2e/model -seed %d", first+run)
			return
		}
	}
	for _, wanted := range []string{"200", "201", "404 NotFound", "409 AlreadyExists", "409 Conflict", "422 Invalid"} {
		if codes[wanted] == 0 {
			t.Errorf("no request was answered %s: the requests do not reach far enough (%v)", wanted, codes)
		}
	}
	t.Logf("%d requests from seed %d agree; answers: %v", *requests, first, codes)
}

func compareAnswers(t *testing.T, seed uint64, count int, codes map[string]int) {
	cluster := stage.New(t, stage.Config{APIOnly: true})
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // the model counts whole seconds
	server := newAPIServer(t, cluster.API())
	rng := rand.New(rand.NewPCG(seed, 1))
	believed := Cluster{Objects: map[Key]Object{}, Revision: server.revision(), Now: time.Now().Unix()}
	var story []string
	for range count {
		request := drawRequest(rng, believed)
		var want Answer
		believed, want = believed.Step(request)
		if request.Verb == Tick {
			time.Sleep(time.Duration(request.Seconds) * time.Second)
			continue
		}
		got := server.send(request)
		story = append(story, fmt.Sprintf("%+v", request))
		codes[fmt.Sprint(want.Code)+suffix(want.Reason)]++
		if want.Object != nil && got.Object != nil && (request.DryRun || want.Object.Revision == 0) {
			want.Object.Revision, got.Object.Revision = 0, 0 // what was not stored has none
		}
		if difference := cmp.Diff(want, got); difference != "" {
			last := story[max(0, len(story)-8):]
			t.Fatalf("seed %d: the model (-) and the apiserver (+) differ:\n%s\nafter\n%s", seed, difference, join(last))
		}
	}
}

func suffix(reason string) string {
	if reason == "" {
		return ""
	}
	return " " + reason
}

func join(lines []string) string {
	text := ""
	for _, line := range lines {
		text += line + "\n"
	}
	return text
}

// drawRequest draws a request that is likely to be meaningful.
func drawRequest(rng *rand.Rand, c Cluster) Request {
	r := Request{
		Verb: pick(rng, Create, Create, Get, List, Put, Put, Phase, Bind, Delete, Delete, Delete, Tick),
		Key:  Key{pick(rng, Pod, Pod, Pod, ConfigMap), fmt.Sprintf("x%d", rng.IntN(6))},
	}
	old, exists := c.Objects[r.Key]
	switch r.Verb {
	case Create:
		r.Label, r.Finalizers = pick(rng, "", "a"), pick(rng, nil, nil, []string{"ex.io/a"}, []string{"ex.io/a", "ex.io/b"})
		r.Node, r.DryRun = pick(rng, "", "n1"), rng.IntN(20) == 0
		r.Grace = pick(rng, nil, new(int64(-5)), new(int64(0)), new(int64(1)), new(int64(5)))
	case Put:
		r.Label, r.Finalizers = pick(rng, "", "a", "b"), pick(rng, nil, []string{"ex.io/a"}, []string{"ex.io/b"}, []string{"ex.io/b", "ex.io/a"})
		if exists && rng.IntN(2) == 0 {
			r.Finalizers = old.Finalizers
		}
		r.Condition = pick(rng, Always, Always, Holds, Holds, Holds, StaleRevision)
	case Phase:
		r.Key.Kind, r.Text = Pod, pick(rng, "Pending", "Running", "Succeeded", "Failed")
	case Bind:
		r.Key.Kind, r.Node = Pod, pick(rng, "n1", "n2")
	case Delete:
		r.Grace = pick(rng, nil, nil, new(int64(-1)), new(int64(0)), new(int64(0)), new(int64(1)), new(int64(2)), new(int64(5)), new(int64(60)))
		r.Policy = pick(rng, "", "", "", "Background", "Foreground", "Orphan")
		r.Condition = pick(rng, Always, Always, Always, Always, Holds, Holds, OtherUID, StaleRevision)
		r.DryRun = rng.IntN(12) == 0
	case Tick:
		r.Seconds = rng.Int64N(8)
	case Get, List:
	}
	return r
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// TestModelMatchesUpstream checks the model against a few of upstream's tables, so that a mistake
// that both sides share is found.
func TestModelMatchesUpstream(t *testing.T) {
	// API-26, TD-002: the grace in force, the grace asked for, the grace after.
	for _, row := range []struct{ inForce, asked, after int64 }{
		{1, -1, 1}, {1, 0, 0}, {1, 1, 1}, {1, 2, 1}, {2, -1, 1}, {2, 0, 0}, {2, 1, 1}, {2, 2, 2},
	} {
		key := Key{Pod, "x"}
		held := []string{"ex.io/a"}
		c := Cluster{Now: 1000, Objects: map[Key]Object{key: {
			Deadline: 1000 + row.inForce, Grace: row.inForce, HasGrace: true, Node: "n", Finalizers: held,
		}}}
		c, answer := c.Step(Request{Verb: Delete, Key: key, Grace: &row.asked})
		if got := c.Objects[key].Grace; got != row.after || answer.Code != http.StatusOK {
			t.Errorf("TD-002 (%d, %d): grace %d, want %d", row.inForce, row.asked, got, row.after)
		}
	}
}
