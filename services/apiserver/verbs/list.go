package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/watch"
)

// list answers with a page of a collection, all of it at one revision (WCH-02 to WCH-06).
func (a *API) list(ctx context.Context, req Request, opts metav1.ListOptions, send Send) error {
	found, err := a.readPage(ctx, req, opts)
	if err != nil {
		return err
	}
	return found.send(ctx, req, send)
}

func listOptions(data []byte) (metav1.ListOptions, error) {
	return decodeOptions[metav1.ListOptions](data)
}

// page is one page of a list.
type page struct {
	revision int64
	records  []*store.Record
	// more says that the list continues behind the last record.
	more bool
	// remaining counts the objects behind the page; unknown if that would need a search.
	remaining int64
}

const unknown = -1

// readPage returns the page that a list asks for.
func (a *API) readPage(ctx context.Context, req Request, opts metav1.ListOptions) (page, error) {
	plan, err := registry.ParseListOptions(req.Kind, req.Namespace, opts)
	if err != nil {
		return page{}, err
	}
	snapshot, err := a.snapshotFor(ctx, plan, opts.ResourceVersion)
	if errors.Is(err, store.ErrCompacted) {
		return page{}, expiredList(req, plan)
	}
	if err != nil {
		return page{}, err
	}
	return a.pageOf(req, plan, snapshot), nil
}

// pageOf takes a page out of a state of the store.
func (a *API) pageOf(req Request, plan registry.ListPlan, snapshot *store.Snapshot) page {
	found := page{revision: snapshot.Revision()}
	everything := plan.Labels.Empty() && plan.Fields.Empty()
	strategy := a.strategy(req.Kind)
	for record := range snapshot.Scan(req.key().Resource, req.Namespace, plan.After) {
		if !everything && !matchesSelectors(plan, strategy, record.Object) {
			continue
		}
		if plan.Limit == 0 || int64(len(found.records)) < plan.Limit {
			found.records = append(found.records, record)
			continue
		}
		found.more = true
		if !everything {
			found.remaining = unknown
			break
		}
		found.remaining++
	}
	return found
}

func matchesSelectors(plan registry.ListPlan, strategy registry.Strategy, obj kinds.Object) bool {
	return plan.Labels.Matches(labels.Set(obj.GetLabels())) &&
		(plan.Fields.Empty() || plan.Fields.Matches(strategy.Fields(obj)))
}

// snapshotFor returns the state of the store that a plan asks for.
func (a *API) snapshotFor(ctx context.Context, plan registry.ListPlan, asked string) (*store.Snapshot, error) {
	switch plan.Match {
	case registry.Latest, registry.Any:
		return a.Store.Snapshot(), nil
	case registry.NotOlderThan:
		if err := a.waitForRevision(ctx, asked); err != nil {
			return nil, err
		}
		return a.Store.Snapshot(), nil
	case registry.Exact:
	}
	snapshot, err := a.Store.At(plan.Revision)
	if errors.Is(err, store.ErrFuture) {
		return nil, watch.TooLarge(plan.Revision, a.Store.Snapshot().Revision())
	}
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return snapshot, nil
}

// expiredList returns the 410 for a state that is compacted. A client in the middle of a list gets
// a token to continue without consistency.
func expiredList(req Request, plan registry.ListPlan) error {
	if plan.After == "" {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	refused := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without the continue parameter, " +
		"or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - " +
		"objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	refused.ErrStatus.Continue = registry.EncodeContinue(req.Kind, req.Namespace,
		registry.Continue{Revision: registry.AnyRevision, After: plan.After})
	return refused
}

// partLimit is how many bytes of objects a part of an answer holds. Larger parts would delay other
// messages.
const partLimit = 32 << 10

// send answers with the page, in parts.
func (p page) send(ctx context.Context, req Request, send Send) error {
	list := &proto.List{Revision: uint64(p.revision), Remaining: unknown}
	if p.more {
		last := p.records[len(p.records)-1].Key
		list.Continue = registry.EncodeContinue(req.Kind, req.Namespace,
			registry.Continue{Revision: p.revision, After: last.Path()})
		list.Remaining = p.remaining
	}
	size := 0
	for _, record := range p.records {
		item, err := itemOf(req.Kind, record)
		if err != nil {
			return err
		}
		if size > 0 && size+len(item.GetObject()) > partLimit {
			if err := send(ctx, &proto.Response{Code: http.StatusOK, List: list}, true); err != nil {
				return err
			}
			list, size = &proto.List{Revision: uint64(p.revision), Remaining: unknown}, 0
		}
		list.Items = append(list.Items, item)
		size += len(item.GetObject())
	}
	return send(ctx, &proto.Response{Code: http.StatusOK, List: list}, false)
}
