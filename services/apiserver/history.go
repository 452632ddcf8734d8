package apiserver

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
)

// recordOpen records what the opened store holds.
func recordOpen(recorder *history.Recorder, kept *store.Store) {
	snapshot := kept.Snapshot()
	recorder.Record("", history.StoreOpen{Revision: snapshot.Revision(), Objects: snapshot.Len(), ChecksumsOK: true})
}

// recordCommits records a batch that is on disk, before any reader can see it.
func recordCommits(recorder *history.Recorder, snapshot *store.Snapshot, events []store.Event) {
	if recorder == nil {
		return
	}
	entries := make([]history.Entry, 0, len(events))
	for _, event := range events {
		entries = append(entries, history.Entry{Cause: event.Cause, Fact: event.Fact()})
	}
	recorder.RecordAll(batchBegan(recorder, snapshot), entries...)
}

// recordSync records that readers can see a batch that is on disk, and the oldest revision whose
// state they can read.
func recordSync(recorder *history.Recorder, snapshot *store.Snapshot, oldest int64) {
	if recorder != nil {
		recorder.RecordAll(batchBegan(recorder, snapshot), history.Entry{Fact: history.Fsync{Revision: snapshot.Revision(), Oldest: oldest}})
	}
}

// batchBegan returns when the write of a batch began, or now if the store does not know.
func batchBegan(recorder *history.Recorder, snapshot *store.Snapshot) history.MonoTime {
	if began := history.MonoTime(snapshot.TxBegan()); began != 0 {
		return began
	}
	return recorder.Now()
}

// recordStoreError wraps run and records the error if the disk has stopped the store.
func recordStoreError(recorder *history.Recorder, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		if failed, ok := errors.AsType[*store.CommitError](err); ok {
			recorder.Record("", history.StoreError{Kind: failed.Error()})
		}
		return err
	}
}

// recordWrite carries out a request, and records the request, its target and its answer. If there
// is a history, do fills in req.Meant.
func (s *server) recordWrite(req *verbs.Request, send verbs.Send, do func(verbs.Send) error) error {
	operation := req.Envelope.GetOperation()
	if s.history != nil {
		req.Meant = &verbs.Meant{}
		s.history.Record(operation, newOpCall(req))
	}
	began, answered := s.history.Now(), false
	err := do(func(ctx context.Context, part *proto.Response, more bool) error {
		if !more && s.history != nil {
			s.history.RecordSince(began, operation, newOpReturn(part, req.Meant))
			answered = true
		}
		return send(ctx, part, more)
	})
	if refused := apierrors.APIStatus(nil); errors.As(asStatusError(err), &refused) {
		s.refusals.record(req, refused.Status(), s.clock.Now())
		s.history.RecordSince(began, operation, withMeant(history.OpReturn{Code: refused.Status().Code}, req.Meant))
	} else if err != nil && !answered { // it is answered as an internal error
		s.history.RecordSince(began, operation, withMeant(history.OpReturn{Code: http.StatusInternalServerError}, req.Meant))
	}
	return err
}

func newOpCall(req *verbs.Request) history.OpCall {
	call := history.OpCall{
		Identity: string(req.Identity), Verb: string(req.Verb), Resource: req.Kind.GroupResource().String(),
		Key: keyOf(req), Subresource: req.Subresource, Boot: req.Envelope.GetBoot(),
	}
	if body := req.Envelope.GetBody(); len(body) > 0 {
		call.Body = history.Digest(body)
	}
	if deadline := req.Envelope.GetDeadlineUnixNano(); deadline != 0 {
		wall := clock.Clock{}
		call.TimeLeft = new(wall.Until(time.Unix(0, deadline)).Milliseconds())
	}
	addOptions(req, &call)
	return call
}

// keyOf names the object of a request, in the form of the history.
func keyOf(req *verbs.Request) string {
	if req.Namespace == "" {
		return req.Name
	}
	return req.Namespace + "/" + req.Name
}

// addOptions adds what a request's options say to call. Unreadable options are refused later.
func addOptions(req *verbs.Request, call *history.OpCall) {
	if req.Verb != proto.VerbDelete && req.Verb != proto.VerbDeleteCollection {
		if data := req.Envelope.GetOptions(); len(data) > 0 {
			var opts metav1.PatchOptions // in which dryRun has the number that it has in all others
			call.DryRun = opts.Unmarshal(data) == nil && len(opts.DryRun) > 0
		}
		if !verbs.IsEviction(*req) {
			return
		}
	}
	opts, err := verbs.DeleteOptionsOf(*req)
	if err != nil {
		return
	}
	call.Grace, call.DryRun = opts.GracePeriodSeconds, call.DryRun || len(opts.DryRun) > 0
	if only := opts.Preconditions; only != nil {
		call.PreUID, call.PreRevision = string(deref(only.UID)), deref(only.ResourceVersion)
	}
}

func deref[T any](value *T) (none T) {
	if value == nil {
		return none
	}
	return *value
}

func newOpReturn(part *proto.Response, meant *verbs.Meant) history.OpReturn {
	item := part.GetItem()
	returned := history.OpReturn{Code: part.GetCode(), Revision: int64(item.GetRevision()), Warnings: len(part.GetWarnings())}
	if len(item.GetObject()) > 0 {
		returned.Object = history.Digest(item.GetObject())
	}
	return withMeant(returned, meant)
}

// withMeant returns the answer with the UID, revision and name that the request's object carried.
func withMeant(returned history.OpReturn, meant *verbs.Meant) history.OpReturn {
	if meant != nil {
		returned.BodyUID, returned.BodyRevision, returned.BodyName = meant.UID, meant.Revision, meant.Name
	}
	return returned
}

// Export reads the history in the store's file of a data directory; see store.Export. No apiserver
// may be running on it: store.ErrLocked otherwise.
func Export(dataDir string) ([]history.Event, error) {
	return store.Export(filepath.Join(dataDir, storeFile))
}

// Verify checks the store's file in a data directory, without changing it; see store.Verify.
func Verify(ctx context.Context, dataDir string) (store.Verified, error) {
	return store.Verify(ctx, filepath.Join(dataDir, storeFile))
}
