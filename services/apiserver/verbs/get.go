package verbs

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/watch"
)

// get reads one object. The subresource "status" reads the same object.
func (a *API) get(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.GetOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := a.waitForRevision(ctx, opts.ResourceVersion); err != nil {
		return nil, err
	}
	record := a.Store.Snapshot().Get(req.key())
	if record == nil {
		return nil, req.notFound()
	}
	if err := admission.Admit(req.Attributes, nil, record.Object); err != nil {
		return nil, err
	}
	return storedResponse(http.StatusOK, req.Kind, record, nil)
}

// futureRevisionWait is how long a read waits for a revision that the store has not reached yet
// (WCH-03).
const futureRevisionWait = 3 * time.Second

// waitForRevision returns when the store has reached the revision that text names, or at once if
// text is empty or "0".
func (a *API) waitForRevision(ctx context.Context, text string) error {
	if text == "" || text == "0" {
		return nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %q", text))
	}
	if revision <= a.Store.Snapshot().Revision() {
		return nil
	}
	waiting, cancel := a.Clock.Timeout(ctx, futureRevisionWait)
	defer cancel()
	switch err := a.Store.WaitFor(waiting, revision); {
	case err == nil:
		return nil
	case waiting.Err() != nil && ctx.Err() == nil:
		return watch.TooLarge(revision, a.Store.Snapshot().Revision())
	default:
		return fmt.Errorf("wait for revision %d: %w", revision, err)
	}
}
