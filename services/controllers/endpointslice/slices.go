package endpointslice

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
)

// Plan is what to write. Creates have a name prefix instead of a name.
type Plan struct {
	Creates, Updates, Deletes []*discoveryv1.EndpointSlice
}

// Decide plans the slices of a service. Endpoints stay in their slice, new ones fill free space,
// and only changed slices are written (reconcileByPortMapping).
func Decide(view View) Plan {
	plan := Plan{}
	wanted := groupEndpoints(view)
	if len(wanted) == 0 { // a service without endpoints says so in one slice without ports
		for _, family := range families(view.Service) {
			wanted = append(wanted, group{family: family, ports: []discoveryv1.EndpointPort{}})
		}
	}
	existing := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range view.Slices {
		key := portsKey(slice.AddressType, slice.Ports)
		existing[key] = append(existing[key], slice)
	}
	for _, g := range wanted {
		plan.planGroup(view.Service, g, existing[g.key()])
		delete(existing, g.key())
	}
	for _, key := range slices.Sorted(maps.Keys(existing)) {
		plan.Deletes = append(plan.Deletes, existing[key]...)
	}
	return plan
}

// planGroup plans the slices of one set of ports.
func (p *Plan) planGroup(service *corev1.Service, g group, existing []*discoveryv1.EndpointSlice) {
	filled, rest := g.keepInPlace(existing)
	for i := range existing {
		n := min(MaxEndpoints-len(filled[i]), len(rest))
		filled[i], rest = append(filled[i], rest[:n]...), rest[n:]
	}
	kept := 0
	for i, slice := range existing {
		last := i == len(existing)-1
		if len(filled[i]) == 0 && (len(g.endpoints) > 0 || !last || kept > 0) {
			p.Deletes = append(p.Deletes, slice)
			continue
		}
		kept++
		p.planUpdate(service, slice, filled[i])
	}
	for len(rest) > 0 || kept == 0 {
		n := min(MaxEndpoints, len(rest))
		p.Creates = append(p.Creates, newSlice(service, g, rest[:n]))
		rest, kept = rest[n:], kept+1
	}
}

// keepInPlace returns the current endpoints that stay in each slice, and the new endpoints.
func (g group) keepInPlace(existing []*discoveryv1.EndpointSlice) (filled [][]discoveryv1.Endpoint, rest []discoveryv1.Endpoint) {
	waiting := map[types.UID]discoveryv1.Endpoint{}
	for _, endpoint := range g.endpoints {
		waiting[endpoint.TargetRef.UID] = endpoint
	}
	filled = make([][]discoveryv1.Endpoint, len(existing))
	for i, slice := range existing {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef == nil {
				continue
			}
			if now, stays := waiting[endpoint.TargetRef.UID]; stays && len(filled[i]) < MaxEndpoints {
				filled[i] = append(filled[i], now)
				delete(waiting, endpoint.TargetRef.UID)
			}
		}
	}
	for _, endpoint := range g.endpoints {
		if _, waits := waiting[endpoint.TargetRef.UID]; waits {
			rest = append(rest, endpoint)
		}
	}
	return filled, rest
}

func (p *Plan) planUpdate(service *corev1.Service, slice *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint) {
	updated := slice.DeepCopy()
	updated.Labels = sliceLabels(service)
	updated.OwnerReferences = []metav1.OwnerReference{ownerOf(service)}
	updated.Endpoints = endpoints
	if !kinds.Equal(slice, updated) {
		p.Updates = append(p.Updates, updated)
	}
}

func newSlice(service *corev1.Service, g group, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, GenerateName: generateNamePrefix(service.Name), Labels: sliceLabels(service),
			OwnerReferences: []metav1.OwnerReference{ownerOf(service)},
		},
		AddressType: g.family, Ports: g.ports, Endpoints: slices.Clone(endpoints),
	}
}

// generateNamePrefix leaves room for the five letters that the API adds.
func generateNamePrefix(name string) string {
	const most = 63 - 5
	if len(name)+1 > most {
		return name[:most-1] + "-"
	}
	return name + "-"
}

func ownerOf(service *corev1.Service) metav1.OwnerReference {
	return *metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))
}

// sliceLabels are the service's labels, and those that mark its slices.
func sliceLabels(service *corev1.Service) map[string]string {
	all := map[string]string{}
	for key, value := range service.Labels {
		switch key {
		case corev1.IsHeadlessService, discoveryv1.LabelServiceName, discoveryv1.LabelManagedBy:
		default:
			all[key] = value
		}
	}
	if isHeadless(service) {
		all[corev1.IsHeadlessService] = ""
	}
	all[discoveryv1.LabelServiceName], all[discoveryv1.LabelManagedBy] = service.Name, ManagedBy
	return all
}
