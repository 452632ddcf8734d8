package procengine

import (
	"os"
	"path/filepath"
	"testing"
)

// TestJournalIsBounded: a journal that is too large is rotated once, and a smaller one stays.
func TestJournalIsBounded(t *testing.T) {
	dir := t.TempDir()
	e := &Engine{cfg: Config{Journal: filepath.Join(dir, "signals.ndjson")}}
	sizes := func() (now, older int64) {
		for path, size := range map[string]*int64{e.cfg.Journal: &now, e.cfg.Journal + ".1": &older} {
			*size = -1
			if info, err := os.Stat(path); err == nil {
				*size = info.Size()
			}
		}
		return now, older
	}
	for _, row := range []struct{ before, now, older int64 }{
		{-1, -1, -1}, {5, 5, -1}, {maxJournal, -1, maxJournal}, {7, 7, maxJournal}, {maxJournal + 1, -1, maxJournal + 1},
	} {
		if row.before >= 0 {
			if err := os.WriteFile(e.cfg.Journal, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(e.cfg.Journal, row.before); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.rotateJournal(); err != nil {
			t.Fatal(err)
		}
		if now, older := sizes(); now != row.now || older != row.older {
			t.Errorf("of %d bytes: %d and %d, want %d and %d", row.before, now, older, row.now, row.older)
		}
	}
	if err := (&Engine{}).rotateJournal(); err != nil {
		t.Error(err)
	}
}
