package verbs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// services is the key of Services in the store.
const services = "services"

// oneByOne waits until no other Service is being written, for a Service, and returns what
// lets the next one in. Two Services must not be given the same address.
func (a *API) oneByOne(kind kinds.Kind) (done func()) {
	if kind.GroupResource() != corev1.Resource(services) {
		return func() {}
	}
	a.addressing.Lock()
	return a.addressing.Unlock
}

// address gives a prepared Service what it needs of the cluster's addresses.
func (a *API) address(w *write) error {
	svc, ok := w.obj.(*corev1.Service)
	if !ok || w.Subresource != "" {
		return nil
	}
	old, _ := w.old.(*corev1.Service)
	if !registry.NeedsAddresses(svc, old) {
		return nil
	}
	var taken registry.TakenAddresses
	taken.Take(&corev1.Service{})
	for record := range a.Store.Snapshot().Scan(services, "", "") {
		other, ok := record.Object.(*corev1.Service)
		if ok && record.Key != w.key() {
			taken.Take(other)
		}
	}
	return registry.GiveAddresses(w.Kind, svc, old, taken)
}
