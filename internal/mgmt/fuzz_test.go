package mgmt_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/mgmt"
)

// FuzzApply: a refused change leaves the state as it was. An accepted change makes the next
// revision, with unique names and a clock that does not go back. The new state survives encoding
// and can be evaluated.
func FuzzApply(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		state := emptyState(t)
		for i, text := range [][]byte{first, second} {
			var change mgmt.Change
			if json.Unmarshal(text, &change) != nil {
				return
			}
			at := instantAfter(time.Duration(i) * time.Second)
			was := mustEncode(t, state)
			next, err := state.Apply(change, at)
			if mustEncode(t, state) != was {
				t.Fatalf("%s changed the board that it was given", text)
			}
			if err != nil {
				if err.Error() == "" || mustEncode(t, next) != was {
					t.Errorf("%s was refused (%v), and made %s", text, err, mustEncode(t, next))
				}
				continue
			}
			checkNext(t, state, next, at)
			state = next
		}
	})
}

// checkNext checks a state that was made from another.
func checkNext(t *testing.T, state, next mgmt.FaultState, at mgmt.Instant) {
	t.Helper()
	if next.Revision != state.Revision+1 || !next.IsNewerThan(state) || state.IsNewerThan(next) {
		t.Errorf("revision %d after %d", next.Revision, state.Revision)
	}
	if err := next.Clock.Check(); err != nil {
		t.Error(err)
	}
	for wall := at.Wall; wall.Before(at.Wall.Add(time.Second)); wall = wall.Add(50 * time.Millisecond) {
		if next.Clock.TimeAt(wall.Add(50 * time.Millisecond)).Before(next.Clock.TimeAt(wall)) {
			t.Errorf("the clock goes back at %s: %+v", wall, next.Clock)
		}
	}
	seen := map[string]bool{}
	for _, fault := range next.Faults {
		if seen[fault.Name] || fault.Name == "" {
			t.Errorf("fault %q is there twice, or has no name", fault.Name)
		}
		seen[fault.Name] = true
	}
	seen = map[string]bool{}
	for _, cut := range next.Cuts {
		if seen[cut.Name] || cut.Name == "" {
			t.Errorf("cut %q is there twice, or has no name", cut.Name)
		}
		seen[cut.Name] = true
	}
	var read mgmt.FaultState
	if err := json.Unmarshal([]byte(mustEncode(t, next)), &read); err != nil || mustEncode(t, read) != mustEncode(t, next) {
		t.Errorf("wrote %s, read %s (%v)", mustEncode(t, next), mustEncode(t, read), err)
	}
	next.AllFaults()
	ends := next.NextExpiry()
	if over := next.WithoutExpired(mgmt.Instant{Wall: ends.Wall, Cluster: ends.Cluster}); len(over.Faults)+len(over.Cuts) == len(next.Faults)+len(next.Cuts) && ends != (mgmt.Instant{}) {
		t.Errorf("nothing is over at %+v of %s", ends, mustEncode(t, next))
	}
}

func mustEncode(t *testing.T, state mgmt.FaultState) string {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
