package faultstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podfall/podfall/internal/mgmt"
)

// damageError reports a file with invalid content.
type damageError struct {
	cause error
	// aside is the file's new path.
	aside string
}

// Error implements error.
func (e *damageError) Error() string { return e.cause.Error() }

// load reads the state; a missing file is an empty state.
func load(path string) (mgmt.FaultState, error) {
	var state mgmt.FaultState
	if path == "" {
		return state, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err != nil {
		return state, err
	}
	err = json.Unmarshal(data, &state)
	if err == nil && len(state.Clock) > 0 {
		err = state.Clock.Check()
	}
	if err != nil {
		aside := path + ".damaged"
		if err := os.Rename(path, aside); err != nil {
			return mgmt.FaultState{}, err
		}
		return mgmt.FaultState{}, &damageError{fmt.Errorf("%s: %w", path, err), aside}
	}
	return state, nil
}

// save replaces the file atomically. Only its owner may read it.
func save(path string, state mgmt.FaultState) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = draft.Write(append(data, '\n'))
	if err = errors.Join(err, draft.Sync(), draft.Close()); err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}
