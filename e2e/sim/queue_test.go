package sim

import (
	"slices"
	"testing"
	"time"
)

// TestQueue fills queues, takes out what has become void, and compares what comes with what
// is sorted.
func TestQueue(t *testing.T) {
	for seed := range uint64(200) {
		d := newDice(seed, "queue", 0)
		var q queue
		var wanted []*event
		for order := range uint64(1 + d.below(60)) {
			e := &event{at: time.Duration(d.below(10)), order: order}
			q.push(e)
			wanted = append(wanted, e)
			if d.oneIn(3) {
				void := d.below(len(wanted))
				q.remove(wanted[void])
				q.remove(wanted[void]) // is not there any more
				wanted = slices.Delete(wanted, void, void+1)
			}
		}
		slices.SortFunc(wanted, func(a, b *event) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for i, want := range wanted {
			if len(q) == 0 || q[0] != want {
				t.Fatalf("seed %d: the %dth of %d events is another", seed, i, len(wanted))
			}
			q.remove(q[0])
		}
		if len(q) > 0 {
			t.Errorf("seed %d: %d events are left", seed, len(q))
		}
	}
}

// TestWithoutFaults removes all faults from scripts, and keeps everything else.
func TestWithoutFaults(t *testing.T) {
	for seed := range uint64(20) {
		loud := Draw(seed, modeOf(seed), time.Hour)
		still := loud.WithoutFaults()
		broken := func(d Action) bool { return d.Kind.isFault() }
		if still.NetFaults != (FaultRates{}) || slices.ContainsFunc(still.Actions, broken) {
			t.Errorf("seed %d: something breaks in a fault-free run", seed)
		}
		made := func(s Script) (n int) {
			for _, d := range s.Actions {
				if d.Kind == CreatePod || d.Kind == DeletePod {
					n++
				}
			}
			return n
		}
		if made(still) != made(loud) {
			t.Errorf("seed %d: users do other things in a fault-free run", seed)
		}
	}
}
