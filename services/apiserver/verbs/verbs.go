// Package verbs carries out requests on the store: a file per verb, each for every
// kind. What is special about a kind is the registry's to know, what a DELETE means is
// decided in package deletion, who may do what in package admission; the verbs read,
// ask them, commit and answer.
//
//	create.go           new objects, generateName
//	get.go list.go      reads, from one snapshot each
//	watch.go            hands over to the watch hub
//	write.go            the steps of every write, from what was asked for to the commit
//	update.go patch.go  two ways to say what changes; modify.go stores it
//	apply.go            a third, which needs no object to be there
//	delete.go           rounds 1 and 3 of a deletion
//	deletecollection.go a delete for each of many
//	bind.go             a pod gets its node
//	evict.go            a delete that asks the disruption budget first
//	scale.go token.go   the other subresources with bodies of their own
//	replay.go           answers a repeated operation from what it did the first time
//
// # Order
//
// Reads see every write that was answered before they came. A write is decided on one
// version of its object and stored only if that is still the current one; otherwise it
// is decided again or refused.
//
// # Blocking
//
// Reads never wait for writes. A write returns when it is on disk, or when its context
// ends; in the latter case it may still happen.
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
	// Plugins are the admission plugins that are on; none when nil.
	Plugins []string
	// Custom are the kinds that definitions in the store add; nil means none.
	Custom *custom.Catalog
	// Graph knows what the pods of nodes refer to; nil means nothing.
	Graph *nodegraph.Graph
	// Hooks asks admission webhooks; nil asks none.
	Hooks *webhook.Dispatcher
	// Entropy is what UIDs and generated names are drawn from; it must be safe for
	// concurrent use. nil means the system's.
	Entropy io.Reader
	// Deleters is how many deletes of one collection run beside each other; 0 is many.
	Deleters int
}

// API carries out requests. It is safe for concurrent use and holds no state of its own.
type API struct {
	Config

	// builtIn are the strategies of the built-in kinds, by their keys in the store.
	builtIn map[string]registry.Strategy
	// fields knows how the fields of objects merge.
	fields *fieldmanager.Fields
	// addressing is held while a Service is judged and stored.
	addressing sync.Mutex
}

// New is an API over cfg.
func New(cfg Config) *API {
	if cfg.Entropy == nil {
		cfg.Entropy = rand.Reader
	}
	return &API{Config: cfg, builtIn: registry.Strategies(cfg.Compat), fields: fieldmanager.New(cfg.definition)}
}

// definition is what defines a custom kind; nil when nothing does.
func (c Config) definition(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	if definition := c.Custom.Definition(gr.String()); definition != nil {
		return definition.CRD
	}
	return nil
}

// Request is a call whose subject and envelope have been read and found well-formed.
type Request struct {
	admission.Attributes
	// Envelope holds the options and the body, still encoded.
	Envelope *proto.Request
	// Now is when the request came. Each attempt of a delete or an eviction has a time of its own,
	// as upstream's has: what it finds may have been marked since then.
	Now time.Time
	// Meant is filled with what an update's or a create's object says of itself; nil for
	// nobody.
	Meant *Meant
}

// Meant is the incarnation and the version that an update is about, as its sender says, or
// the name that a create's object is to have; empty for one that is to be made up.
type Meant struct{ UID, Revision, Name string }

// Send takes one part of an answer; more says whether others follow.
type Send func(ctx context.Context, part *proto.Response, more bool) error

// Do carries out one request and sends its answer. Its error is what to answer with
// instead, unless parts of an answer have been sent: then it is send's own.
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
	answer, err := a.one(ctx, req)
	if err != nil {
		return err
	}
	return send(ctx, answer, false)
}

// one carries out a request on a single object.
func (a *API) one(ctx context.Context, req Request) (*proto.Response, error) {
	if req.Verb == proto.VerbGet {
		if req.Subresource == scale {
			return a.getScale(ctx, req)
		}
		return a.get(ctx, req)
	}
	if answer, err := a.replay(req); answer != nil || err != nil {
		return answer, err
	}
	if do := a.door(req.Verb, req.Subresource); do != nil {
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

// door is what a verb does through a subresource of its own kind; nil when the
// subresource is another way to write the object.
func (a *API) door(verb proto.Verb, subresource string) func(context.Context, Request) (*proto.Response, error) {
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

// optionsOf is what an options message of a request has to be able to do.
type optionsOf[T any] interface {
	*T
	Unmarshal(data []byte) error
}

// options reads a verb's metav1 options.
func options[T any, P optionsOf[T]](data []byte) (T, error) {
	var opts T
	if len(data) == 0 {
		return opts, nil
	}
	if err := P(&opts).Unmarshal(data); err != nil {
		return opts, apierrors.NewBadRequest(fmt.Sprintf("options: want an encoded %T: %v", opts, err))
	}
	return opts, nil
}
