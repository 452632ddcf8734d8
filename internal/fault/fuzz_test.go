package fault

import (
	"encoding/json"
	"testing"
	"time"
)

// FuzzNew: a fault that is taken can be asked, written, and taken again.
func FuzzNew(f *testing.F) {
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		var spec Spec
		if json.Unmarshal(text, &spec) != nil {
			return
		}
		now := time.Unix(1_700_000_000, 0)
		made, err := New(name, spec, now)
		if err != nil {
			return
		}
		table := NewTable(Config{Process: "kubelet/node-1", Node: "node-1"})
		table.Set([]Fault{made})
		table.FindEffect(spec.Point, Attributes{Node: "node-1", Pod: "web"}, Drop, Duplicate, Expire, Lie, Value)
		again, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		var read Spec
		if err := json.Unmarshal(again, &read); err != nil {
			t.Fatalf("wrote %s, which cannot be read: %v", again, err)
		}
		if _, err := New(name, read, now); err != nil {
			t.Errorf("took %s, and refuses it written as %s: %v", text, again, err)
		}
	})
}
