// Package guarantees lets clusters live through seeded trouble and checks what they have
// written down against every promise. Other tests check theirs with it, too.
package guarantees

import (
	"context"
	"path/filepath"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver"
)

// Check checks what a cluster in one process has left in its directory; nothing of it may
// run any more.
func Check(ctx context.Context, dir string) ([]guarantees.Result, error) {
	evidence, err := EvidenceOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	return guarantees.Check(evidence)
}

// EvidenceOf is what a cluster has left in its directory: its histories, and its database as
// it is found, of which an apiserver that runs lets nobody know. With an error it is the
// histories alone.
func EvidenceOf(ctx context.Context, dir string) (guarantees.Evidence, error) {
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
