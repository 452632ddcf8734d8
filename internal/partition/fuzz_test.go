package partition_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/partition"
)

// FuzzNew: a valid cut defines a link's condition at any time, and the next change is later.
func FuzzNew(f *testing.F) {
	f.Fuzz(func(t *testing.T, name string, text []byte, later int64) {
		var spec partition.Spec
		if json.Unmarshal(text, &spec) != nil {
			return
		}
		cut, err := partition.New(name, spec, members, since)
		if err != nil {
			return
		}
		now := since.Add(time.Duration(later))
		for _, member := range members {
			_, next := partition.ConditionOf([]partition.Cut{cut}, member, members, now)
			if !next.IsZero() && !next.After(now) {
				t.Errorf("%s: at %v the next change of %s is at %v", text, now, member, next)
			}
		}
		again, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var read partition.Spec
		if err := json.Unmarshal(again, &read); err != nil {
			t.Fatalf("wrote %s, which cannot be read: %v", again, err)
		}
		if _, err := partition.New(name, read, members, since); err != nil {
			t.Errorf("took %s, and refuses it written as %s: %v", text, again, err)
		}
	})
}
