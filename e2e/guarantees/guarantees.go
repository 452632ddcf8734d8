// Package guarantees lets clusters live through seeded trouble and checks what they have
// written down against every promise. Other tests check theirs with it, too.
package guarantees

import (
	"context"
	"path/filepath"

	"github.com/podfall/podfall/internal/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver"
)

// Check checks what a cluster in one process has left in its directory; nothing of it may
// run any more.
func Check(ctx context.Context, dir string) ([]guarantees.Result, error) {
	log, err := history.Read(filepath.Join(dir, "history"))
	if err != nil {
		return nil, err
	}
	found, err := apiserver.Verify(ctx, filepath.Join(dir, "apiserver"))
	disk, err := guarantees.DiskOf(found.Revision, found.Objects, err)
	if err != nil {
		return nil, err
	}
	evidence := guarantees.Evidence{Log: log, Disk: disk}
	if disk.Damage == nil {
		if evidence.Store, err = apiserver.Export(filepath.Join(dir, "apiserver")); err != nil {
			return nil, err
		}
	}
	return guarantees.Check(evidence)
}
