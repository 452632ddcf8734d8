package guarantees

import (
	"errors"
	"fmt"

	"github.com/podfall/podfall/internal/history"
)

// The reasons why evidence proves nothing.
var (
	ErrNothing    = errors.New("nothing has happened in this history: want a store that was opened, a write that was taken, and a commit")
	ErrIncomplete = errors.New("events are missing from this history")
)

// assumeSound returns an error unless the history is complete and shows work. A run that did
// nothing must not pass.
func (h *clusterHistory) assumeSound() error {
	for _, gap := range h.log.Gaps {
		if gap.From != 1 {
			return fmt.Errorf("%w: %v", ErrIncomplete, gap)
		}
	}
	opened, taken := false, false
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.LostEvents:
			return fmt.Errorf("%w: %s could not write %d: %s", ErrIncomplete, e.Process, fact.Count, fact.Err)
		case history.StoreOpen:
			opened = true
		case history.OpReturn:
			taken = taken || isSuccess(fact.Code)
		}
	}
	// The beginning of a long history may have been deleted, and the store's opening with it.
	if !opened && h.completeFrom == 0 || !taken || len(h.commits) == 0 {
		return ErrNothing
	}
	return nil
}

// isSuccess reports whether an HTTP status code says that a request was carried out.
func isSuccess(code int32) bool { return code >= 200 && code < 300 }

// isClientError reports whether an HTTP status code says that a request changed nothing.
func isClientError(code int32) bool { return code >= 400 && code < 500 }
