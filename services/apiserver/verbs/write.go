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
	// old is the stored version; nil for a new object.
	old kinds.Object
	// obj is the object to be stored. The write owns it.
	obj kinds.Object
	// snapshot is the state on which the write is decided.
	snapshot *store.Snapshot
	dryRun   bool
	warnings []string
	// uid is that of a new object, drawn once.
	uid types.UID
	// by is the field manager of the write.
	by author
}

// author identifies the field manager of a write.
type author struct {
	// manager is empty if the request names none.
	manager string
	// applied says that the object is the result of an apply.
	applied bool
}

// admitWrite takes a write through all steps before the commit, or refuses it. The steps are in
// upstream's order:
//
//	checkPlace           the namespace exists            admission/namespace.go
//	prepare              what the server keeps, defaults registry/
//	track                which manager set which field   fieldmanager/
//	setPluginDefaults    what classes and plugins add    admission/defaults.go
//	mutate               what webhooks change            webhook/
//	admit                which identity may write what   admission/
//	validate             what the kind refuses           registry/
//	callValidatingHooks  what webhooks refuse            webhook/
//
// A step may change w.obj and add to w.warnings; it writes nothing. The commit follows; a Service
// gets its address with it (services.go).
func (a *API) admitWrite(ctx context.Context, w *write) error {
	for _, step := range []func(context.Context, *write) error{
		a.checkPlace, a.prepare, a.track, a.setPluginDefaults, a.mutate, a.admit, a.validate, a.callValidatingHooks,
	} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// checkPlace refuses a new object in a namespace that does not exist or is being deleted.
func (a *API) checkPlace(_ context.Context, w *write) error {
	if w.old == nil && a.Custom.IsTerminating(w.Kind.GroupResource().String()) {
		return apierrors.NewForbidden(w.Kind.GroupResource(), w.Name, errDefinitionTerminating)
	}
	if w.old != nil || !w.Kind.Namespaced {
		return nil
	}
	return admission.CheckNamespace(w.Attributes, w.obj, namespaceIn(w.snapshot, w.Namespace))
}

var errDefinitionTerminating = errors.New("create not allowed while custom resource definition is terminating")

// prepare sets what only the server may set, and the defaults. It is idempotent, so it may run
// again after a step that changed the object.
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

// track updates managedFields, for the objects that have any.
func (a *API) track(_ context.Context, w *write) error {
	switch {
	case w.by.applied:
	case fieldmanager.IsTracked(w.by.manager, w.obj, w.old):
		a.fields.Track(w.fieldWrite(w.by), w.obj, w.old)
	default:
		w.obj.SetManagedFields(nil)
		return nil
	}
	fieldmanager.StampTimes(w.obj, w.old, w.Now)
	return nil
}

// fieldWrite describes a request's write for managedFields.
func (r Request) fieldWrite(by author) fieldmanager.Write {
	manager := by.manager
	if manager == "" {
		manager = fieldmanager.DefaultManager(r.Identity)
	}
	return fieldmanager.Write{Kind: r.Kind, Subresource: r.Subresource, Manager: manager}
}

// admit checks whether the identity may write the object, and what the plugins refuse.
func (a *API) admit(_ context.Context, w *write) error {
	if err := admission.Admit(w.Attributes, w.obj, w.old); err != nil {
		return err
	}
	return admission.Check(a.Plugins, w.Attributes, w.obj, w.old, classes{w.snapshot})
}

// validate calls the kind's validation.
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
