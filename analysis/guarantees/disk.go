package guarantees

import (
	"errors"
	"fmt"
	"strings"

	"github.com/podfall/podfall/internal/boltfile"
	"github.com/podfall/podfall/internal/history"
)

// Disk is the result of reading the store's file from its first page to its last.
type Disk struct {
	// Revision is the value of the file's counter.
	Revision int64
	// Objects counts the live objects.
	Objects int
	// Damage describes the first record or page that does not hold what was written; nil if all do.
	Damage *boltfile.DamageError
}

// NewDisk returns the result of a verification of the file (the apiserver's store.Verify). An error
// other than damage means that nothing is known of the file, and is returned.
func NewDisk(revision int64, objects int, err error) (*Disk, error) {
	if damage := new(boltfile.DamageError); errors.As(err, &damage) {
		return &Disk{Damage: damage}, nil
	}
	if err != nil {
		return nil, err
	}
	return &Disk{Revision: revision, Objects: objects}, nil
}

// isContradictory reports damage where each record is as it was written, but together the records
// are no state.
func (d *Disk) isContradictory() bool {
	return d.Damage != nil && d.Damage.Bucket != "" && !strings.HasPrefix(d.Damage.Record, "page ") && !strings.Contains(d.Damage.What, "checksum")
}

// checkFileState checks A9 of the file as it is: its records add up to one state, and its counter
// is the revision of the last record. TestPowerCuts of the store tries what power cuts leave.
func checkFileState(h *clusterHistory, t *tally) {
	switch {
	case h.disk == nil || h.disk.Damage != nil && !h.disk.isContradictory():
		return
	case h.disk.Damage != nil:
		t.expect(false, "the store's file is no state: "+h.disk.Damage.Error())
		return
	}
	t.cases++
	if !h.hasFile {
		return
	}
	live := map[*object]bool{}
	var last *commit
	for _, c := range h.commits {
		if !c.stored {
			continue
		}
		live[c.object], last = c.Op != deleted, c
	}
	objects := 0
	for _, there := range live {
		if there {
			objects++
		}
	}
	t.expect(objects == h.disk.Objects, fmt.Sprintf("the log of the store's file leads to %d objects, and it has %d", objects, h.disk.Objects), eventOf(last))
	t.expect(last == nil || last.Revision == h.disk.Revision, fmt.Sprintf("the counter of the store's file is %d", h.disk.Revision), eventOf(last))
}

// checkFileDamage checks A10 of the file as it is: every page and record holds what was written.
func checkFileDamage(h *clusterHistory, t *tally) {
	if h.disk == nil || h.disk.isContradictory() {
		return
	}
	what := ""
	if h.disk.Damage != nil {
		what = "the store's file is damaged: " + h.disk.Damage.Error()
	}
	t.expect(h.disk.Damage == nil, what)
	for e, open := range factsOf[history.StoreOpen](h) {
		t.expect(open.ChecksumsOK, "an apiserver has served a file whose records it had not verified", e)
	}
}
