package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// ErrDirNotEmpty is returned for a directory that already holds histories, which would be mixed
// with the new ones.
var ErrDirNotEmpty = errors.New("the directory holds histories already")

// Write writes a log as its processes would have: one file for each process. The directory is
// created if missing and must hold no histories ([ErrDirNotEmpty]). [Read] reads it.
func (l Log) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*"+extension+"*")); err != nil || len(found) > 0 {
		return fmt.Errorf("history: %s: %w", dir, cmp.Or(err, ErrDirNotEmpty))
	}
	lines := map[string][]byte{}
	for _, e := range l.Events {
		line, err := e.appendJSON(lines[e.Process])
		if err != nil {
			return fmt.Errorf("history: %s %d of %s: %w", e.Fact.Name(), e.Sequence, e.Process, err)
		}
		lines[e.Process] = append(line, '\n')
	}
	for _, process := range slices.Sorted(maps.Keys(lines)) {
		if err := os.WriteFile(filePath(dir, process), lines[process], 0o600); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}
