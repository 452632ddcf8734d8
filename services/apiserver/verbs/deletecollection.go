package verbs

import (
	"cmp"
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/deletion"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// defaultDeleters is how many deletes of one collection run in parallel.
const defaultDeleters = 64

// deleteCollection lists objects and deletes each as a single DELETE would. It is not atomic: the
// first refusal is returned when all others are done. The answer is the list (API-89).
func (a *API) deleteCollection(ctx context.Context, req Request, send Send) error {
	opts, err := decodeOptions[metav1.DeleteOptions](req.Envelope.GetOptions())
	if err != nil {
		return err
	}
	if err := deletion.ValidateOptions(opts); err != nil {
		return err
	}
	selection, err := listOptions(req.Envelope.GetListOptions())
	if err != nil {
		return err
	}
	found, err := a.listForDelete(ctx, req, selection)
	if err != nil {
		return err
	}
	if err := a.deleteAll(ctx, req, opts, found.records); err != nil {
		return err
	}
	return found.send(ctx, req, send)
}

// listForDelete returns what to delete. A repeated operation gets the list of the first time, so
// that it finishes that work and does not delete newer objects.
func (a *API) listForDelete(ctx context.Context, req Request, selection metav1.ListOptions) (page, error) {
	events, err := a.Store.EventsOfOperation(req.Envelope.GetOperation())
	if err != nil {
		return page{}, err
	}
	if len(events) == 0 {
		return a.readPage(ctx, req, selection)
	}
	plan, err := registry.ParseListOptions(req.Kind, req.Namespace, selection)
	if err != nil {
		return page{}, err
	}
	before, err := a.Store.At(events[0].Revision - 1)
	if err != nil {
		return page{}, apierrors.NewResourceExpired("the operation began too long ago to be taken up again")
	}
	return a.pageOf(req, plan, before), nil
}

// deleteAll deletes each object, and returns the first refusal when all are done.
func (a *API) deleteAll(ctx context.Context, req Request, opts metav1.DeleteOptions, records []*store.Record) error {
	deleters := cmp.Or(a.Deleters, defaultDeleters)
	var running sync.WaitGroup
	todo, failures := make(chan *store.Record), make(chan error, deleters)
	for range min(deleters, len(records)) {
		running.Go(func() {
			var first error
			for record := range todo {
				first = worseError(first, RecoverPanic(func() error { return a.deleteOne(ctx, req, opts, record) }))
			}
			failures <- first // there is room for each
		})
	}
	err := sendAll(ctx, todo, records)
	close(todo)
	running.Wait()
	close(failures)
	for failure := range failures {
		err = worseError(err, failure)
	}
	return err
}

// worseError returns the first of two errors, or the second if it is a panic.
func worseError(first, second error) error {
	if first == nil || errors.As(second, new(*PanicError)) {
		return second
	}
	return first
}

func sendAll(ctx context.Context, todo chan<- *store.Record, records []*store.Record) error {
	for _, record := range records {
		select {
		case todo <- record:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// deleteOne deletes one object of a collection. An object that is gone, or was replaced, is no
// failure.
func (a *API) deleteOne(ctx context.Context, req Request, opts metav1.DeleteOptions, record *store.Record) error {
	req.Verb, req.Namespace, req.Name = proto.VerbDelete, record.Key.Namespace, record.Key.Name
	own := opts.Preconditions == nil
	if own {
		opts.Preconditions = &metav1.Preconditions{UID: new(record.Object.GetUID())}
	}
	_, err := a.deleteWith(ctx, req, opts)
	if apierrors.IsNotFound(err) || own && apierrors.IsConflict(err) {
		return nil
	}
	return err
}
