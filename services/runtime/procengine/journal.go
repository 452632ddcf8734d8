package procengine

import (
	"errors"
	"io/fs"
	"os"
)

// maxJournal is the size in bytes at which the journal is rotated. One older file is kept.
const maxJournal = 16 << 20

// rotateJournal renames the journal once it is too large. A shim opens the journal for each record,
// so a shim that has it open still writes to the older file.
func (e *Engine) rotateJournal() error {
	if e.cfg.Journal == "" {
		return nil
	}
	info, err := os.Stat(e.cfg.Journal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() < maxJournal:
		return nil
	}
	return os.Rename(e.cfg.Journal, e.cfg.Journal+".1")
}
