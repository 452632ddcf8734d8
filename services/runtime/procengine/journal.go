package procengine

import (
	"errors"
	"io/fs"
	"os"
)

// mostJournal is how large the journal grows, in bytes, before it is put aside; there is
// one older one.
const mostJournal = 16 << 20

// turnJournal puts the journal aside when it has grown too large. A shim opens it for each
// record: one that has opened it already writes to the older one.
func (e *Engine) turnJournal() error {
	if e.cfg.Journal == "" {
		return nil
	}
	info, err := os.Stat(e.cfg.Journal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() < mostJournal:
		return nil
	}
	return os.Rename(e.cfg.Journal, e.cfg.Journal+".1")
}
