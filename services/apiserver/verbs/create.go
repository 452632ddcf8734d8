package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// maxNameTries is how many generated names a create tries before it gives up.
const maxNameTries = 8

// create stores a new object. A used name is a conflict until the object that has it is removed
// (API-67).
func (a *API) create(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.CreateOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := invalidOptions("CreateOptions", validation.ValidateCreateOptions(&opts)); err != nil {
		return nil, err
	}
	for draw := 1; ; draw++ {
		obj, warnings, err := a.decodeBody(req, opts.FieldValidation)
		if err != nil {
			return nil, err
		}
		generate := obj.GetName() == "" && obj.GetGenerateName() != ""
		if generate {
			obj.SetName(a.generatedName(obj.GetGenerateName()))
		}
		answer, err := a.createObject(ctx, req, obj, createOptions{
			dryRun: len(opts.DryRun) > 0, warnings: warnings, by: author{manager: opts.FieldManager},
		})
		if !generate || !apierrors.IsAlreadyExists(err) {
			return answer, err
		}
		if draw == maxNameTries {
			return nil, apierrors.NewGenerateNameConflict(req.Kind.GroupResource(), obj.GetName(), 1)
		}
	}
}

// createOptions are the options of a new object.
type createOptions struct {
	dryRun   bool
	warnings []string
	by       author
}

// createObject validates one object under one name, and stores it.
func (a *API) createObject(ctx context.Context, req Request, obj kinds.Object, with createOptions) (*proto.Response, error) {
	req.Name, req.Verb = obj.GetName(), proto.VerbCreate
	w := &write{
		Request: req, strategy: a.strategy(req.Kind), obj: obj, snapshot: a.Store.Snapshot(),
		dryRun: with.dryRun, warnings: with.warnings, by: with.by,
	}
	if err := a.admitWrite(ctx, w); err != nil {
		return nil, err
	}
	if taken := w.snapshot.Get(req.key()); taken != nil {
		return nil, alreadyExists(req.Kind, taken)
	}
	var events []store.Event
	err := a.commitAddressed(w, func() (err error) {
		if !w.dryRun {
			all := append([]store.Write{{Key: req.key(), Expect: store.Absent, Object: w.obj}}, a.accompanyingWrites(w)...)
			events, err = a.commit(ctx, req, all...)
		}
		return err
	})
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		return nil, alreadyExists(req.Kind, conflict.Have)
	}
	if err != nil {
		return nil, err
	}
	if w.dryRun {
		return unstoredResponse(http.StatusCreated, req.Kind, w.obj, w.warnings)
	}
	return storedResponse(http.StatusCreated, req.Kind, events[0].Record, w.warnings)
}

// alreadyExists returns the 409 for a used name. Its message says if the holder is being deleted.
func alreadyExists(kind kinds.Kind, holder *store.Record) error {
	refused := apierrors.NewAlreadyExists(kind.GroupResource(), holder.Key.Name)
	if holder.Object.GetDeletionTimestamp() != nil {
		refused.ErrStatus.Message = "object is being deleted: " + refused.ErrStatus.Message
	}
	return refused
}

func namespaceIn(snapshot *store.Snapshot, name string) *corev1.Namespace {
	record := snapshot.Get(store.Key{Resource: "namespaces", Name: name})
	if record == nil {
		return nil
	}
	namespace, _ := record.Object.(*corev1.Namespace)
	return namespace
}

// commit writes for a request. Every write of the API passes here.
func (a *API) commit(ctx context.Context, req Request, writes ...store.Write) ([]store.Event, error) {
	for _, write := range writes {
		if err := a.checkSize(req, write); err != nil {
			return nil, err
		}
	}
	events, err := a.Store.Commit(ctx, store.Commit{Writes: writes, Cause: req.Envelope.GetOperation()})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", req.Verb, req.key(), err)
	}
	return events, nil
}
