package verbs

import (
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/store"
)

// replay answers an operation that has had its effect before, from its events in the store's
// history, which survives restarts. It returns nil if the operation has had no effect. Whether an
// answer was lost or a request came twice, there is one effect (guarantees N1 and D9).
func (a *API) replay(req Request) (*proto.Response, error) {
	events, err := a.Store.EventsOfOperation(req.Envelope.GetOperation())
	if err != nil || len(events) == 0 {
		return nil, err
	}
	if req.Subresource == evicts {
		return replayEviction(req, events)
	}
	events = firstObjectEvents(events)
	last := events[len(events)-1]
	if !sameRequest(req, events[0], last) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"operation: %q has been another request's; want a new one for each request", req.Envelope.GetOperation()))
	}
	if err := admission.Admit(req.Attributes, last.Record.Object, last.Record.Object); err != nil {
		return nil, err
	}
	switch {
	case req.Subresource == binding:
		return successResponse(http.StatusCreated, nil, nil)
	case req.Subresource == scale:
		shown, err := a.scaleOf(req, last.Record.Object)
		if err != nil {
			return nil, err
		}
		return unstoredResponse(http.StatusOK, scaleKind(), shown, nil)
	case req.Verb == proto.VerbDelete:
		opts, err := decodeOptions[metav1.DeleteOptions](req.Envelope.GetOptions())
		if err != nil {
			return nil, err
		}
		answer, err := deleteResponse(req, last, opts)
		return addWarnings(answer, a.deletionWarnings(req, events[0].Previous.Object, opts)), err
	case last.Type == store.Added:
		return storedResponse(http.StatusCreated, req.Kind, last.Record, nil)
	}
	return storedResponse(http.StatusOK, req.Kind, last.Record, nil)
}

// firstObjectEvents leaves out what the operation wrote besides its first object.
func firstObjectEvents(events []store.Event) []store.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e store.Event) bool { return e.Record.Key != events[0].Record.Key })
}

// replayEviction answers an eviction that has written its pod. One that has only spent a budget was
// refused afterwards, and is decided again.
func replayEviction(req Request, events []store.Event) (*proto.Response, error) {
	for _, event := range events {
		if event.Record.Key == req.key() {
			return successResponse(http.StatusCreated, nil, nil)
		}
	}
	return nil, nil //nolint:nilnil // as replay's
}

// sameRequest reports whether the events can be those of req: its object, and what its verb does.
// Events do not name the verb, but only a create adds, and only a delete marks or removes an
// unmarked object. For a while the server also remembers whole requests, and compares all of them.
func sameRequest(req Request, first, last store.Event) bool {
	want, have := req.key(), last.Record.Key
	if want.Name == "" {
		want.Name = have.Name // the server chose it
	}
	created := first.Type == store.Added
	creates := req.Verb == proto.VerbCreate && req.Subresource == ""
	switch {
	case want != have:
		return false
	case req.Verb == proto.VerbDelete:
		return !created && (last.Type == store.Deleted || isTerminating(last.Record))
	case created:
		changes := req.Verb == proto.VerbUpdate || req.Verb == proto.VerbPatch
		return creates || changes && req.Subresource == ""
	}
	return !creates && (isTerminating(first.Previous) || first.Type == store.Modified && !isTerminating(first.Record))
}

// isTerminating reports whether the object of a version is being deleted.
func isTerminating(record *store.Record) bool { return record.Object.GetDeletionTimestamp() != nil }
