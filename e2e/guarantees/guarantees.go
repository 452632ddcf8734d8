// Package guarantees runs clusters under seeded troubles and checks every invariant on their
// histories. Other tests check their clusters with it, too.
package guarantees

import (
	"context"
	"path/filepath"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver"
)

// Check checks what a cluster in one process left in its directory. None of its processes may run
// any more.
func Check(ctx context.Context, dir string) ([]guarantees.Result, error) {
	evidence, err := ReadEvidence(ctx, dir)
	if err != nil {
		return nil, err
	}
	return guarantees.Check(evidence)
}

// ReadEvidence returns what a cluster left in its directory: its histories, and its database as
// found. A running apiserver keeps the database locked. With an error, the evidence has the
// histories alone.
func ReadEvidence(ctx context.Context, dir string) (guarantees.Evidence, error) {
	log, err := history.Read(filepath.Join(dir, "history"))
	evidence := guarantees.Evidence{Log: log}
	if err != nil {
		return evidence, err
	}
	found, err := apiserver.Verify(ctx, filepath.Join(dir, "apiserver"))
	if evidence.Disk, err = guarantees.NewDisk(found.Revision, found.Objects, err); err != nil || evidence.Disk.Damage != nil {
		return evidence, err
	}
	evidence.Store, err = apiserver.Export(filepath.Join(dir, "apiserver"))
	return evidence, err
}
