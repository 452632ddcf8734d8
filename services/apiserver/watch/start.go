package watch

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startPoint is where a watch begins.
type startPoint struct {
	// initial asks for an ADDED event for every existing object first.
	initial bool
	// bookmark ends the initial events with a BOOKMARK that says so.
	bookmark bool
	// after is the revision after which events are wanted; fromNow means the present one.
	after int64
	// atLeast is a revision that the initial events must have reached.
	atLeast int64
}

// fromNow in startPoint.after means: from the present revision.
const fromNow = -1

// parseStart decides where a watch with these options begins (WCH-10 to WCH-13, and as a real apiserver
// does for an unset sendInitialEvents):
//
//	resourceVersion   sendInitialEvents unset     true                 false
//	"" or "0"         initial events, then live   the same             from now
//	N                 events after N              initial, not < N     events after N
//
// The end of initial events is marked when bookmarks are allowed.
func parseStart(options metav1.ListOptions) (startPoint, error) {
	revision := int64(0)
	if options.ResourceVersion != "" {
		parsed, err := strconv.ParseInt(options.ResourceVersion, 10, 64)
		if err != nil || parsed < 0 {
			return startPoint{}, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %q", options.ResourceVersion))
		}
		revision = parsed
	}
	initial := revision == 0
	if options.SendInitialEvents != nil {
		initial = *options.SendInitialEvents
	}
	switch {
	case initial:
		return startPoint{initial: true, bookmark: options.AllowWatchBookmarks, atLeast: revision}, nil
	case revision == 0:
		return startPoint{after: fromNow}, nil
	}
	return startPoint{after: revision}, nil
}

// TooLarge returns the error for a revision that the store has not reached in 3 s (WCH-03).
func TooLarge(asked, current int64) *apierrors.StatusError {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// TooOld returns the error for a watch from a revision before the history (WCH-30). oldest is the
// first revision whose event is still in the history.
func TooOld(asked, oldest int64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", asked, oldest-1))
}
