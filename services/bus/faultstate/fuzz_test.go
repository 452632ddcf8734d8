package faultstate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/mgmt"
)

// FuzzLoad: a file either loads as a state that round-trips, or it is renamed unchanged and the
// error names it.
func FuzzLoad(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "board.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := load(path)
		if err != nil {
			damaged, ok := errors.AsType[*damageError](err)
			if !ok || !strings.HasPrefix(damaged.Error(), path+": ") {
				t.Fatalf("%q: %v", text, err)
			}
			if aside, err := os.ReadFile(damaged.aside); err != nil || string(aside) != string(text) {
				t.Errorf("%q was put aside as %q (%v)", text, aside, err)
			}
			if again, err := load(path); err != nil || encodeState(t, again) != encodeState(t, mgmt.FaultState{}) {
				t.Errorf("after that there is %s (%v)", encodeState(t, again), err)
			}
			return
		}
		if err := save(path, state); err != nil {
			t.Fatalf("%q was loaded and cannot be saved: %v", text, err)
		}
		if again, err := load(path); err != nil || encodeState(t, again) != encodeState(t, state) {
			t.Errorf("saved %s, loaded %s (%v)", encodeState(t, state), encodeState(t, again), err)
		}
		now := time.Unix(1_800_000_000, 0)
		state.Members = []string{"node-1", "apiserver"}
		state.WithoutExpired(mgmt.Instant{Wall: now, Cluster: now}).AllFaults()
	})
}

func encodeState(t *testing.T, state mgmt.FaultState) string {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
