package verbs

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/fieldmanager"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// write is one object on its way into the store.
type write struct {
	Request

	strategy registry.Strategy
	// old is the version in the store; nil for a new object.
	old kinds.Object
	// obj is what shall be stored, the writer's own.
	obj kinds.Object
	// snapshot is the state that the write is judged by.
	snapshot *store.Snapshot
	dryRun   bool
	warnings []string
	// uid is a new object's, drawn once.
	uid types.UID
	// by is who writes.
	by author
}

// author is who makes a write, as managedFields name it.
type author struct {
	// manager is empty when nobody was named.
	manager string
	// applied says that the object is the outcome of an apply.
	applied bool
}

// judge takes a write from what was asked for to what may be committed, or refuses it.
// Between reading and committing, each write takes these steps, in upstream's order:
//
//	place     the namespace is there          admission/namespace.go
//	prepare   what the server keeps, defaults registry/
//	track     who has set which field         fieldmanager/
//	complete  what classes and plugins add    admission/defaults.go
//	mutate    what webhooks change            webhook/
//	admit     who may write what              admission/
//	validate  what the kind refuses           registry/
//	consult   what webhooks refuse            webhook/
//
// A step may change w.obj and add to w.warnings; it writes nothing. What follows is the
// commit; a Service gets its address with it (services.go).
func (a *API) judge(ctx context.Context, w *write) error {
	for _, step := range []func(context.Context, *write) error{
		a.place, a.prepare, a.track, a.complete, a.mutate, a.admit, a.validate, a.consult,
	} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// place refuses a new object in a namespace that takes none.
func (a *API) place(_ context.Context, w *write) error {
	if w.old == nil && a.Custom.Terminating(w.Kind.GroupResource().String()) {
		return apierrors.NewForbidden(w.Kind.GroupResource(), w.Name, errDefinitionTerminating)
	}
	if w.old != nil || !w.Kind.Namespaced {
		return nil
	}
	return admission.InNamespace(w.Attributes, w.obj, namespaceIn(w.snapshot, w.Namespace))
}

var errDefinitionTerminating = errors.New("create not allowed while custom resource definition is terminating")

// prepare sets what is not the sender's to say, and fills in what was left out. Doing it
// again after a step that changed the object changes nothing else.
func (a *API) prepare(_ context.Context, w *write) error {
	if w.old != nil {
		registry.PrepareUpdate(w.strategy, w.obj, w.old, w.Subresource)
		return nil
	}
	if w.uid == "" {
		w.uid = a.NewUID()
	}
	return registry.PrepareCreate(w.strategy, w.obj, w.Now, w.uid)
}

// track brings managedFields up to date, for the objects that have any.
func (a *API) track(_ context.Context, w *write) error {
	switch {
	case w.by.applied:
	case fieldmanager.Tracked(w.by.manager, w.obj, w.old):
		a.fields.Track(w.door(w.by), w.obj, w.old)
	default:
		w.obj.SetManagedFields(nil)
		return nil
	}
	fieldmanager.Settle(w.obj, w.old, w.Now)
	return nil
}

// door is what a request goes through, as managedFields see it.
func (r Request) door(by author) fieldmanager.Door {
	manager := by.manager
	if manager == "" {
		manager = fieldmanager.NameOf(r.Identity)
	}
	return fieldmanager.Door{Kind: r.Kind, Subresource: r.Subresource, Manager: manager}
}

// admit asks who may write what, and what plugins refuse.
func (a *API) admit(_ context.Context, w *write) error {
	if err := admission.Admit(w.Attributes, w.obj, w.old); err != nil {
		return err
	}
	return admission.Check(a.Plugins, w.Attributes, w.obj, classes{w.snapshot})
}

// validate asks the kind what is wrong with the object.
func (a *API) validate(_ context.Context, w *write) error {
	if w.old != nil {
		return registry.ValidateUpdate(w.strategy, w.Kind, w.obj, w.old, w.Subresource)
	}
	if err := registry.ValidateCreate(w.strategy, w.Kind, w.obj); err != nil {
		return err
	}
	w.warnings = append(w.warnings, w.strategy.Warnings(w.obj)...)
	return nil
}
