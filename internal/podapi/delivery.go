package podapi

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// delivery is what a watch has delivered to its consumer and not yet recorded in the history.
type delivery struct {
	watch    uint64
	from     uint64
	sum      history.Sum
	code     int32
	recorded bool // a previous delivery was recorded
}

// add counts a delivered event.
func (t *delivery) add(event *proto.Event, given watch.Event) {
	switch given.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		t.sum.Add(strings.TrimPrefix(event.GetType().String(), "EVENT_TYPE_"), int64(event.GetRevision()))
	case watch.Bookmark:
	case watch.Error:
		if status, ok := given.Object.(*metav1.Status); ok {
			t.code = status.Code
		}
	}
}

// recordDelivery records what was delivered since the last record, up to the cursor. The first
// record is written even if it is empty.
func (r *reader) recordDelivery() {
	to := r.cursor.Revision
	if r.client.cfg.History == nil || r.delivery.recorded && r.delivery.sum.Count == 0 && r.delivery.code == 0 {
		return
	}
	r.client.cfg.History.Record("", history.WatchDelivery{
		Watch: r.delivery.watch, Resource: r.scope.Resource, Namespace: r.scope.Namespace, Labels: r.scope.LabelSelector, Fields: r.scope.FieldSelector,
		From: int64(r.delivery.from), To: int64(to), Items: r.delivery.sum.Count, Digest: r.delivery.sum.String(), Code: r.delivery.code,
	})
	r.delivery = delivery{watch: r.delivery.watch, from: to, recorded: true}
}

// operationHookKey is the context key of WithOperationHook.
type operationHookKey struct{}

// WithOperationHook returns a context for one call. The hook receives the call's operation id
// before the request is sent.
func WithOperationHook(ctx context.Context, hook func(operation string)) context.Context {
	return context.WithValue(ctx, operationHookKey{}, hook)
}

func callOperationHook(ctx context.Context, operation string) {
	if hook, ok := ctx.Value(operationHookKey{}).(func(string)); ok {
		hook(operation)
	}
}
