package procengine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// EndAll kills every container of an engine that is gone, and returns when none is left.
func EndAll(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	errs := make([]error, len(entries))
	var ending sync.WaitGroup
	for i, entry := range entries {
		ending.Go(func() { errs[i] = end(ctx, filepath.Join(dir, entry.Name()), entry.Name()) })
	}
	ending.Wait()
	return errors.Join(errs...)
}

// end kills one container and waits for its end.
func end(ctx context.Context, dir, id string) error {
	_, err := shim.End(dir, id)
	for i := 0; i < tries && (errors.Is(err, shim.ErrClaimed) || err == nil && !shim.Gone(dir)); i++ {
		if conn, _, err := shim.Dial(ctx, dir); err == nil {
			conn.Ask(engine.SIGKILL)
			conn.Run(ctx, func(shim.Status) {})
		}
		if err := (clock.Clock{}).Sleep(ctx, pause); err != nil {
			return err
		}
		_, err = shim.End(dir, id)
	}
	return err
}
