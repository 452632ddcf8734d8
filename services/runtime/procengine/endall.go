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

// KillAll kills every container in the directory of a stopped engine, and returns when none is
// left.
func KillAll(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	errs := make([]error, len(entries))
	var ending sync.WaitGroup
	for i, entry := range entries {
		ending.Go(func() { errs[i] = killContainer(ctx, filepath.Join(dir, entry.Name()), entry.Name()) })
	}
	ending.Wait()
	return errors.Join(errs...)
}

// killContainer kills one container and waits for its exit.
func killContainer(ctx context.Context, dir, id string) error {
	_, err := shim.ReadExit(dir, id)
	for i := 0; i < dialAttempts && (errors.Is(err, shim.ErrClaimed) || err == nil && !shim.IsGone(dir)); i++ {
		if conn, _, err := shim.Dial(ctx, dir); err == nil {
			conn.RequestSignal(engine.SIGKILL)
			conn.Run(ctx, func(shim.Status) {})
		}
		if err := (clock.Clock{}).Sleep(ctx, dialPause); err != nil {
			return err
		}
		_, err = shim.ReadExit(dir, id)
	}
	return err
}
