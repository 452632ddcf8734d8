package podapi

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// took is what a watch has handed to its consumer and not yet told the history of.
type took struct {
	watch uint64
	from  uint64
	sum   history.Sum
	code  int32
	begun bool // something was told
}

// add counts an event that the consumer has been given.
func (t *took) add(event *proto.Event, given watch.Event) {
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

// tellHistory tells what was handed over since it last did: all up to where the cursor is.
// What it was given first, or nothing at all, is told of too.
func (r *reader) tellHistory() {
	to := r.at.Revision
	if r.client.cfg.History == nil || r.handed.begun && r.handed.sum.Count == 0 && r.handed.code == 0 {
		return
	}
	r.client.cfg.History.Note("", history.Took{
		Watch: r.handed.watch, Resource: r.scope.Resource, Namespace: r.scope.Namespace, Labels: r.scope.LabelSelector, Fields: r.scope.FieldSelector,
		From: int64(r.handed.from), To: int64(to), Items: r.handed.sum.Count, Digest: r.handed.sum.String(), Code: r.handed.code,
	})
	r.handed = took{watch: r.handed.watch, from: to, begun: true}
}

// tellingKey is where a context keeps who is told of an operation.
type tellingKey struct{}

// Telling is a context for one call whose operation's id is told before it is sent.
func Telling(ctx context.Context, tell func(operation string)) context.Context {
	return context.WithValue(ctx, tellingKey{}, tell)
}

// told tells who wants to know of an operation.
func told(ctx context.Context, operation string) {
	if tell, ok := ctx.Value(tellingKey{}).(func(string)); ok {
		tell(operation)
	}
}
