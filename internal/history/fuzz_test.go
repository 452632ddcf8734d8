package history

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead: whatever is in a history file, each of its whole lines is an event or is
// counted as torn, and an event that was read is written and read as the same again.
func FuzzRead(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a"+extension), text, 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); len(log.Events)+log.Torn > lines {
			t.Errorf("%d events and %d torn of %d lines", len(log.Events), log.Torn, lines)
		}
		for _, event := range log.Events {
			first, err := json.Marshal(event)
			if err != nil {
				t.Fatalf("read an event that cannot be written: %v", err)
			}
			var again Event
			if err := json.Unmarshal(first, &again); err != nil {
				t.Fatalf("wrote %s, which cannot be read: %v", first, err)
			}
			second, err := json.Marshal(again)
			if err != nil || !bytes.Equal(first, second) {
				t.Errorf("%s\nbecame\n%s", first, second)
			}
		}
	})
}
