package control

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// WithHistory returns an API that records the changes of one controller in the history. With a nil
// recorder it returns api.
func WithHistory(api API, recorder *history.Recorder, controller string) API {
	if recorder == nil {
		return api
	}
	return recordingAPI{API: api, history: recorder, controller: controller}
}

// WithName returns api for a part of a controller that records decisions under a name of its own.
func WithName(api API, name string) API {
	if d, is := api.(recordingAPI); is {
		d.controller = name
		return d
	}
	return api
}

type recordingAPI struct {
	API
	history    *history.Recorder
	controller string
}

// Create implements API.
func (d recordingAPI) Create(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.CreateOptions) (kinds.Object, error) {
	if target.Name == "" {
		target.Name = obj.GetName()
	}
	ctx, done := d.record(ctx, proto.VerbCreate, target, "")
	defer done()
	return d.API.Create(ctx, target, obj, options)
}

// Update implements API.
func (d recordingAPI) Update(ctx context.Context, target podapi.Target, obj kinds.Object, options metav1.UpdateOptions) (kinds.Object, error) {
	ctx, done := d.record(ctx, proto.VerbUpdate, target, obj.GetResourceVersion())
	defer done()
	return d.API.Update(ctx, target, obj, options)
}

// Patch implements API.
func (d recordingAPI) Patch(ctx context.Context, target podapi.Target, kind types.PatchType, patch []byte, options metav1.PatchOptions) (kinds.Object, error) {
	ctx, done := d.record(ctx, proto.VerbPatch, target, readRevisionOf(ctx))
	defer done()
	return d.API.Patch(ctx, target, kind, patch, options)
}

// Delete implements API.
func (d recordingAPI) Delete(ctx context.Context, target podapi.Target, options metav1.DeleteOptions) (runtime.Object, error) {
	ctx, done := d.record(ctx, proto.VerbDelete, target, readRevisionOf(ctx))
	defer done()
	return d.API.Delete(ctx, target, options)
}

// record records a decision as soon as the operation that carries it out has its id, which is
// before it is sent. A decision without an operation is recorded without an id, when over is
// called.
func (d recordingAPI) record(ctx context.Context, verb proto.Verb, target podapi.Target, read string) (of context.Context, over func()) {
	key := target.Name
	if target.Namespace != "" {
		key = target.Namespace + "/" + key
	}
	decision := history.Decide{
		Controller: d.controller, ReadRevision: read, Action: string(verb), Resource: target.Kind.GroupResource().String(), Key: key,
	}
	var once sync.Once
	tell := func(operation string) { once.Do(func() { d.history.Record(operation, decision) }) }
	return podapi.WithOperationHook(ctx, tell), func() { tell("") }
}

// readRevision is the context key of the resource version on which a decision was made.
type readRevision struct{}

// withReadRevision returns ctx for a change that was decided on obj.
func withReadRevision(ctx context.Context, obj kinds.Object) context.Context {
	return context.WithValue(ctx, readRevision{}, obj.GetResourceVersion())
}

func readRevisionOf(ctx context.Context) string {
	revision, _ := ctx.Value(readRevision{}).(string)
	return revision
}
