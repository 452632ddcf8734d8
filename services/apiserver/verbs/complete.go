package verbs

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// setPluginDefaults calls the admission plugins that set defaults.
func (a *API) setPluginDefaults(ctx context.Context, w *write) error {
	if err := admission.SetDefaults(a.Plugins, w.Attributes, w.obj, w.old, classes{w.snapshot}); err != nil {
		return err
	}
	if w.old == nil { // the quality of service follows from the defaults
		return a.prepare(ctx, w)
	}
	if w.Subresource == "" || w.Subresource == "resize" { // what came back is no change to count
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

// RuntimeClasses implements admission.Classes.
func (c classes) RuntimeClasses() []*nodev1.RuntimeClass {
	return listAll[*nodev1.RuntimeClass](c.Snapshot, "runtimeclasses.node.k8s.io")
}

// ServiceAccount implements admission.Classes.
func (c classes) ServiceAccount(namespace, name string) *corev1.ServiceAccount {
	record := c.Get(store.Key{Resource: "serviceaccounts", Namespace: namespace, Name: name})
	if record == nil {
		return nil
	}
	account, _ := record.Object.(*corev1.ServiceAccount)
	return account
}

// LimitRanges implements admission.Classes.
func (c classes) LimitRanges(namespace string) []*corev1.LimitRange {
	var found []*corev1.LimitRange
	for record := range c.Scan("limitranges", namespace, "") {
		if limitRange, ok := record.Object.(*corev1.LimitRange); ok {
			found = append(found, limitRange)
		}
	}
	return found
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
