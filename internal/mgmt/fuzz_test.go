package mgmt_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/mgmt"
)

// FuzzApply: whatever change of the board is asked for, a refused one leaves it as it was; one
// that is taken makes the next revision, of names that are there once and a clock that does
// not go back, which is written and read as the same again and can be looked at.
func FuzzApply(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		state := empty(t)
		for i, text := range [][]byte{first, second} {
			var change mgmt.Change
			if json.Unmarshal(text, &change) != nil {
				return
			}
			at := after(time.Duration(i) * time.Second)
			was := encoded(t, state)
			next, err := state.Apply(change, at)
			if encoded(t, state) != was {
				t.Fatalf("%s changed the board that it was given", text)
			}
			if err != nil {
				if err.Error() == "" || encoded(t, next) != was {
					t.Errorf("%s was refused (%v), and made %s", text, err, encoded(t, next))
				}
				continue
			}
			check(t, state, next, at)
			state = next
		}
	})
}

// check looks at a board that has been made of another.
func check(t *testing.T, state, next mgmt.FaultState, at mgmt.Instant) {
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
	if err := json.Unmarshal([]byte(encoded(t, next)), &read); err != nil || encoded(t, read) != encoded(t, next) {
		t.Errorf("wrote %s, read %s (%v)", encoded(t, next), encoded(t, read), err)
	}
	next.AllFaults()
	ends := next.NextExpiry()
	if over := next.WithoutExpired(mgmt.Instant{Wall: ends.Wall, Cluster: ends.Cluster}); len(over.Faults)+len(over.Cuts) == len(next.Faults)+len(next.Cuts) && ends != (mgmt.Instant{}) {
		t.Errorf("nothing is over at %+v of %s", ends, encoded(t, next))
	}
}

func encoded(t *testing.T, state mgmt.FaultState) string {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
