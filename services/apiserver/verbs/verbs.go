// Package verbs carries out requests on the store: a file per verb, each for every kind. Package
// registry knows what is special about a kind, package deletion decides what a DELETE means, and
// package admission decides which identity may do what. The verbs read, call these packages, commit
// and answer.
//
//	create.go           new objects, generateName
//	get.go list.go      reads, from one snapshot each
//	watch.go            hands over to the watch hub
//	write.go            the steps of every write, from the request to the commit
//	update.go patch.go  two ways to describe a change; modify.go stores it
//	apply.go            a third, for objects that may not exist yet
//	delete.go           rounds 1 and 3 of a deletion
//	deletecollection.go a delete for each of many
//	bind.go             assigns a pod to its node
//	evict.go            a delete that respects the disruption budget
//	scale.go token.go   the other subresources with bodies of their own
//	replay.go           answers a repeated operation from its recorded effect
//
// # Order
//
// Reads see every write that was answered before they arrived. A write is decided on one version of
// its object and stored only if that is still the current one; otherwise it is decided again or
// refused.
//
// # Blocking
//
// Reads never wait for writes. A write returns when it is on disk, or when its context ends; in the
// latter case it may still happen.
//
// # Errors
//
// Refusals are apierrors values. Other errors mean that the store has stopped.
package verbs

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/custom"
	"github.com/podfall/podfall/services/apiserver/fieldmanager"
	"github.com/podfall/podfall/services/apiserver/nodegraph"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/watch"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// Config says what the verbs work on.
type Config struct {
	Store Store
	Hub   *watch.Hub
	// Clock is the cluster's time.
	Clock clock.Clock
	// Compat is the release that is imitated.
	Compat proto.Compat
	// Plugins are the enabled admission plugins; nil means none.
	Plugins []string
	// Custom has the kinds of the stored definitions; nil means none.
	Custom *custom.Catalog
	// Graph knows the references of the nodes' pods; nil means none.
	Graph *nodegraph.Graph
	// Hooks calls admission webhooks; nil calls none.
	Hooks *webhook.Dispatcher
	// Entropy is the source of UIDs and generated names. It must be safe for concurrent use. nil
	// means the system's.
	Entropy io.Reader
	// Deleters is how many deletes of one collection run in parallel; 0 means defaultDeleters.
	Deleters int
}

// API carries out requests. It is safe for concurrent use and holds no state of its own.
type API struct {
	Config

	// builtIn has the strategies of the built-in kinds, keyed as in the store.
	builtIn map[string]registry.Strategy
	// fields merges and tracks the fields of objects.
	fields *fieldmanager.Fields
	// addressing is held while a Service's addresses are allocated and stored.
	addressing sync.Mutex
}

// New returns an API over cfg.
func New(cfg Config) *API {
	if cfg.Entropy == nil {
		cfg.Entropy = rand.Reader
	}
	return &API{Config: cfg, builtIn: registry.Strategies(cfg.Compat), fields: fieldmanager.New(cfg.definition)}
}

// definition returns the definition of a custom kind; nil if there is none.
func (c Config) definition(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	if definition := c.Custom.Definition(gr.String()); definition != nil {
		return definition.CRD
	}
	return nil
}

// Request is a call with a parsed and checked subject and envelope.
type Request struct {
	admission.Attributes
	// Envelope holds the options and the body, still encoded.
	Envelope *proto.Request
	// Now is when the request arrived. Each attempt of a delete or an eviction uses the time of
	// that attempt, as upstream's does: the object may have been marked since the request arrived.
	Now time.Time
	// Meant is filled with what the object of an update or a create says of itself; nil if that is
	// not needed.
	Meant *Meant
}

// Meant is the UID and the resourceVersion in the object of an update, or the name in the object of
// a create, which is empty for a generated name.
type Meant struct{ UID, Revision, Name string }

// Send sends one part of an answer; more says whether others follow.
type Send func(ctx context.Context, part *proto.Response, more bool) error

// Do carries out one request and sends its answer. Its error is to be answered instead. If parts of
// an answer have been sent, the error is send's own.
func (a *API) Do(ctx context.Context, req Request, send Send) error {
	var opts metav1.ListOptions
	if req.Verb == proto.VerbList || req.Verb == proto.VerbWatch {
		var err error
		if opts, err = listOptions(req.Envelope.GetOptions()); err != nil {
			return err
		}
	}
	if err := admission.Authorize(req.Attributes, opts.FieldSelector, a.related); err != nil {
		return err
	}
	switch req.Verb {
	case proto.VerbList:
		return a.list(ctx, req, opts, send)
	case proto.VerbWatch:
		return a.watch(ctx, req, opts, send)
	case proto.VerbDeleteCollection:
		return a.deleteCollection(ctx, req, send)
	case proto.VerbGet, proto.VerbCreate, proto.VerbUpdate, proto.VerbPatch, proto.VerbDelete:
	}
	answer, err := a.doSingle(ctx, req)
	if err != nil {
		return err
	}
	return send(ctx, answer, false)
}

// doSingle carries out a request on a single object.
func (a *API) doSingle(ctx context.Context, req Request) (*proto.Response, error) {
	if req.Verb == proto.VerbGet {
		if req.Subresource == scale {
			return a.getScale(ctx, req)
		}
		return a.get(ctx, req)
	}
	if answer, err := a.replay(req); answer != nil || err != nil {
		return answer, err
	}
	if do := a.subresourceHandler(req.Verb, req.Subresource); do != nil {
		return do(ctx, req)
	}
	switch req.Verb {
	case proto.VerbCreate:
		return a.create(ctx, req)
	case proto.VerbUpdate:
		return a.update(ctx, req)
	case proto.VerbPatch:
		return a.patch(ctx, req)
	case proto.VerbDelete:
		return a.delete(ctx, req)
	case proto.VerbGet, proto.VerbList, proto.VerbWatch, proto.VerbDeleteCollection:
	}
	return nil, apierrors.NewMethodNotSupported(req.Kind.GroupResource(), string(req.Verb))
}

// The subresources whose bodies are of another kind than the object.
const (
	binding = "binding"
	evicts  = "eviction"
	scale   = "scale"
	token   = "token"
)

// subresourceHandler returns the handler of a subresource with a body of its own; nil if the
// subresource writes the object itself.
func (a *API) subresourceHandler(verb proto.Verb, subresource string) func(context.Context, Request) (*proto.Response, error) {
	switch subresource {
	case binding:
		return a.bind
	case evicts:
		return a.evict
	case token:
		return a.token
	case scale:
		if verb == proto.VerbPatch {
			return a.patchScale
		}
		return a.updateScale
	}
	return nil
}

func (r Request) key() store.Key {
	return store.Key{Resource: r.Kind.GroupResource().String(), Namespace: r.Namespace, Name: r.Name}
}

func (r Request) notFound() error { return apierrors.NewNotFound(r.Kind.GroupResource(), r.Name) }

func (a *API) strategy(kind kinds.Kind) registry.Strategy {
	if strategy, ok := a.Custom.Strategy(kind); ok {
		return strategy
	}
	return webhook.Strategy(kind, a.builtIn[kind.GroupResource().String()])
}

// optionsMessage is the constraint of an options type that can be decoded.
type optionsMessage[T any] interface {
	*T
	Unmarshal(data []byte) error
}

// decodeOptions reads a verb's metav1 options.
func decodeOptions[T any, P optionsMessage[T]](data []byte) (T, error) {
	var opts T
	if len(data) == 0 {
		return opts, nil
	}
	if err := P(&opts).Unmarshal(data); err != nil {
		return opts, apierrors.NewBadRequest(fmt.Sprintf("options: want an encoded %T: %v", opts, err))
	}
	return opts, nil
}
