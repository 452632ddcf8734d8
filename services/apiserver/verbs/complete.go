package verbs

import (
	"context"

	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// setPluginDefaults calls the admission plugins that set defaults.
func (a *API) setPluginDefaults(_ context.Context, w *write) error {
	if err := admission.SetDefaults(a.Plugins, w.Attributes, w.obj, classes{w.snapshot}); err != nil {
		return err
	}
	if w.old != nil && w.Subresource == "" { // what came back is no change to count
		registry.PrepareUpdate(w.strategy, w.obj, w.old, w.Subresource)
	}
	return nil
}

// classes reads the stored classes.
type classes struct{ *store.Snapshot }

// PriorityClasses implements admission.Classes.
func (c classes) PriorityClasses() []*schedulingv1.PriorityClass {
	return listAll[*schedulingv1.PriorityClass](c.Snapshot, "priorityclasses.scheduling.k8s.io")
}

// StorageClasses implements admission.Classes.
func (c classes) StorageClasses() []*storagev1.StorageClass {
	return listAll[*storagev1.StorageClass](c.Snapshot, "storageclasses.storage.k8s.io")
}

func listAll[T kinds.Object](snapshot *store.Snapshot, resource string) []T {
	var found []T
	for record := range snapshot.Scan(resource, "", "") {
		if obj, ok := record.Object.(T); ok {
			found = append(found, obj)
		}
	}
	return found
}
