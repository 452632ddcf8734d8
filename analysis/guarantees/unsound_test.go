package guarantees

import (
	"math"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// TestRemovesWhatIsNoPod: the final delete of a kubelet claims to have replaced another object than
// its pod, of which no node has recorded anything. What the pod was before is unknown.
func TestRemovesWhatIsNoPod(t *testing.T) {
	b := newBuilder().runPod().markPod().signalPod("SIGTERM").exitPod().reportEnd()
	b.request("node", by(node, "create"), 201, history.Commit{Resource: nodeResource, Key: "n1", UID: "of no pod", Op: added, Node: "n1"})
	b.request("final", by(node, "delete", grace(0), meaning(uid)), 200, web(deleted, succeeded, previous(b.revision)))
	if r := result(check(t, b), "D6"); r.Verdict != NotCheckable {
		t.Errorf("%s (%v), want that it is not known", r.Verdict, r.Err())
	}
}

// TestReplacesLaterCommit: a commit cannot have replaced itself, nor a later one.
func TestReplacesLaterCommit(t *testing.T) {
	for _, its := range []int64{4, 5} {
		b := newBuilder().runPod()
		b.request("a", by(user, "update"), 200, web(modified, previous(its))).request("b", by(user, "update"), 200, web(modified))
		for _, c := range newClusterHistory(b.evidence).commits {
			if c.replaced != nil && c.replaced.Revision >= c.Revision {
				t.Errorf("%d replaced %d", c.Revision, c.replaced.Revision)
			}
		}
		if r := result(check(t, b), "A5"); r.Verdict != Violated {
			t.Errorf("%s, want a revision that was not there", r.Verdict)
		}
	}
}

// TestIndexOfAnotherUID: the UID of a Job's pod changes from one commit to the next.
func TestIndexOfAnotherUID(t *testing.T) {
	b := indexes("", "0")
	b.request("changes", by(user, "update"), 200, web(modified, pending, called("default/sum-0", "changed"), withContent(history.Content{
		Owner: "job", Labels: map[string]string{indexLabel: "0"},
	}))).wait(5)
	b.request("make", by(controllers, "create"), 201, web(added, pending, called("default/sum-1", "sum-1"), withContent(history.Content{
		Owner: "job", Labels: map[string]string{indexLabel: "0"},
	})))
	if r := result(check(t, b), "C10"); r.Verdict != Violated {
		t.Errorf("%s, want an index of two", r.Verdict)
	}
}

// TestTakesBackwards: a consumer reports a delivery from a revision up to an older one.
func TestTakesBackwards(t *testing.T) {
	b := twoPods()
	b.record(kubelet, "", history.WatchDelivery{Watch: 1, Resource: podResource, From: 4, To: 1})
	if r := result(check(t, b), "W7"); r.Verdict != Held {
		t.Errorf("%s (%v), want that it was given nothing", r.Verdict, r.Err())
	}
}

// TestRevisionsFarApart: revisions that are farther apart than an int64 holds stay in order.
func TestRevisionsFarApart(t *testing.T) {
	b := twoPods().request("far", by(user, "create"), 201, web(added, pending, revision(math.MinInt64), called("default/far", "far")))
	known := newClusterHistory(b.evidence).commitLog()
	if n := len(known.changes(1, 3)); known.countUpTo(1) != 2 || n != 2 {
		t.Errorf("%d commits up to revision 1, and %d behind that up to 3; want 2, and 2", known.countUpTo(1), n)
	}
}

// TestSetOfBillions: the missing pods of a huge StatefulSet are found without a list of all their
// names.
func TestSetOfBillions(t *testing.T) {
	b := newWatchedBuilder().releaseFromSet("default/db-0", map[string]string{"app": "db"})
	for i, e := range b.evidence.Log.Events {
		if c, is := e.Fact.(history.Commit); is && c.Replicas != nil {
			c.Replicas = new(int32(math.MaxInt32))
			b.evidence.Log.Events[i].Fact = c
		}
	}
	var r Result
	if n := testing.AllocsPerRun(1, func() { r = result(check(t, b), "L5") }); n > 100_000 || r.Verdict != Violated {
		t.Errorf("%s with %v allocations, want that it lacks pods, with a few", r.Verdict, n)
	}
}
