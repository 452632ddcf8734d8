package boltfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/boltfile"
)

// What bbolt writes is checked where it is written, in the tests of the two stores; here
// is what never was a bbolt file.
func TestCheckForeignFiles(t *testing.T) {
	for name, raw := range map[string]string{
		"empty":  "",
		"short":  "bolt",
		"text":   strings.Repeat("not a store\n", 10_000),
		"zeros":  strings.Repeat("\x00", 1<<16),
		"binary": strings.Repeat("\xff\xfe", 1<<15),
	} {
		path := filepath.Join(t.TempDir(), "file.db")
		if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		err := boltfile.Check(path)
		var damage *boltfile.DamageError
		if !errors.As(err, &damage) || damage.Path != path || !strings.Contains(err.Error(), damage.What) {
			t.Errorf("%s: %v, want a Damage", name, err)
		}
	}
	if err := boltfile.Check(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

func ExampleDamageError() {
	fmt.Println(&boltfile.DamageError{Path: "runtime.db", Bucket: "events", Record: "page 7", What: "used twice"})
	// Output: runtime.db is damaged: events: page 7: used twice
}
