package verbs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/apiserver/registry"
)

// serviceResource is the key of Services in the store.
const serviceResource = "services"

// commitAddressed allocates missing addresses of a Service, and calls commit before another Service
// can be given the same ones. For all other writes it only calls commit.
func (a *API) commitAddressed(w *write, commit func() error) error {
	svc, ok := w.obj.(*corev1.Service)
	if !ok || w.Subresource != "" {
		return commit()
	}
	a.addressing.Lock()
	defer a.addressing.Unlock()
	if err := a.allocateAddresses(w, svc); err != nil {
		return err
	}
	return commit()
}

func (a *API) allocateAddresses(w *write, svc *corev1.Service) error {
	old, _ := w.old.(*corev1.Service)
	if !registry.NeedsAddresses(svc, old) {
		return nil
	}
	var taken registry.UsedAddresses
	for record := range a.Store.Snapshot().Scan(serviceResource, "", "") {
		other, ok := record.Object.(*corev1.Service)
		if ok && record.Key != w.key() {
			taken.Add(other)
		}
	}
	return registry.AllocateAddresses(w.Kind, svc, old, taken)
}
