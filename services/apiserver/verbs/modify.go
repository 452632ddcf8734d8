package verbs

import (
	"context"
	"errors"
	"net/http"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/deletion"
	"github.com/podfall/podfall/services/apiserver/store"
)

// change makes the next version of an object out of the stored one.
type change struct {
	dryRun bool
	by     author
	// next returns the next version, after it has compared its resourceVersion with old's. The
	// caller owns the result; old is not changed.
	next func(old kinds.Object) (obj kinds.Object, warnings []string, err error)
	// shown converts the changed object for the answer; nil answers with the object itself.
	shown func(obj kinds.Object) (kinds.Kind, kinds.Object, error)
}

// modify stores the next version of an object. If another write came first, the change is applied
// again to the newer version. A change that names its resourceVersion then refuses itself (API-65).
func (a *API) modify(ctx context.Context, req Request, change change) (*proto.Response, error) {
	for old := a.Store.Snapshot().Get(req.key()); ; {
		if old == nil {
			return nil, req.notFound() // API-66
		}
		obj, warnings, err := change.next(old.Object)
		if err != nil {
			return nil, err
		}
		w := &write{
			Request: req, strategy: a.strategy(req.Kind), old: old.Object, obj: obj, snapshot: a.Store.Snapshot(),
			dryRun: change.dryRun, warnings: warnings, by: change.by,
		}
		if err := a.admitWrite(ctx, w); err != nil {
			return nil, err
		}
		var now *store.Record // nothing, after a dry run
		err = a.commitAddressed(w, func() (err error) {
			if !w.dryRun {
				now, err = a.replace(ctx, req, w.obj, old)
			}
			return err
		})
		if conflict, lost := errors.AsType[*store.ConflictError](err); lost {
			old = conflict.Have
			continue
		}
		if err != nil {
			return nil, err
		}
		return change.response(w, now)
	}
}

// response returns the answer with what a write has stored, or would have stored; now is nil if it
// has stored nothing.
func (c change) response(w *write, now *store.Record) (*proto.Response, error) {
	switch {
	case c.shown != nil:
		obj := w.obj
		if now != nil {
			obj = now.Object
		}
		kind, shown, err := c.shown(obj)
		if err != nil {
			return nil, err
		}
		return unstoredResponse(http.StatusOK, kind, shown, w.warnings)
	case now == nil:
		return unstoredResponse(http.StatusOK, w.Kind, w.obj, w.warnings)
	}
	return storedResponse(http.StatusOK, w.Kind, now, w.warnings)
}

// replace stores obj in the place of old and returns the stored version. If obj removes the last
// finalizer of a deleted object, replace removes the object and returns nil (API-53). The answer is
// then the object as the client sent it.
func (a *API) replace(ctx context.Context, req Request, obj kinds.Object, old *store.Record) (*store.Record, error) {
	if deletion.RemovedByUpdate(obj, old.Object) {
		_, err := a.commit(ctx, req, store.Write{Key: old.Key, Expect: old.Revision})
		return nil, err
	}
	events, err := a.commit(ctx, req, store.Write{Key: old.Key, Expect: old.Revision, Object: obj})
	if err != nil {
		return nil, err
	}
	if len(events) == 0 { // nothing has changed (API-46)
		return old, nil
	}
	return events[0].Record, nil
}
