package endpointslice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

const (
	// endpointsManagedBy marks the Endpoints that this controller writes. maxAddresses is how many
	// addresses they name.
	endpointsManagedBy = "endpoint-controller"
	managedByLabel     = "endpoints.kubernetes.io/managed-by"
	maxAddresses       = 1000
)

// DecideEndpoints plans a service's Endpoints; nil if have is right. have is nil if there are none.
// Terminating pods are left out unless the service publishes pods that are not ready (CTL-50).
func DecideEndpoints(view View, have *corev1.Endpoints) *corev1.Endpoints { //nolint:staticcheck // clients still read them
	wanted := &corev1.Endpoints{ //nolint:staticcheck // as above
		ObjectMeta: metav1.ObjectMeta{Namespace: view.Service.Namespace, Name: view.Service.Name},
	}
	if have != nil {
		wanted = have.DeepCopy()
	}
	wanted.Labels = map[string]string{}
	for key, value := range view.Service.Labels {
		if key != corev1.IsHeadlessService {
			wanted.Labels[key] = value
		}
	}
	wanted.Labels[managedByLabel] = endpointsManagedBy
	if isHeadless(view.Service) {
		wanted.Labels[corev1.IsHeadlessService] = ""
	}
	wanted.Subsets = buildSubsets(view)
	truncate(wanted)
	if have != nil && kinds.Equal(have, wanted) {
		return nil
	}
	return wanted
}

// truncate cuts the addresses beyond maxAddresses, and annotates the Endpoints.
func truncate(endpoints *corev1.Endpoints) { //nolint:staticcheck // as above
	left := maxAddresses
	truncated := false
	for i := range endpoints.Subsets {
		subset := &endpoints.Subsets[i]
		for _, addresses := range []*[]corev1.EndpointAddress{&subset.Addresses, &subset.NotReadyAddresses} {
			if len(*addresses) > left {
				*addresses, truncated = (*addresses)[:left], true
			}
			left -= len(*addresses)
		}
	}
	if !truncated {
		delete(endpoints.Annotations, corev1.EndpointsOverCapacity)
		return
	}
	if endpoints.Annotations == nil {
		endpoints.Annotations = map[string]string{}
	}
	endpoints.Annotations[corev1.EndpointsOverCapacity] = "truncated"
}

// subset has the addresses of one port, or of all ports with the same addresses (RepackSubsets).
type subset struct {
	ports           []corev1.EndpointPort
	ready, notReady []corev1.EndpointAddress
}

func buildSubsets(view View) []corev1.EndpointSubset { //nolint:staticcheck // as above
	byPort := map[string]*subset{}
	for _, pod := range view.Pods {
		terminating := WithoutTerminating
		if view.Service.Spec.PublishNotReadyAddresses {
			terminating = WithTerminating
		}
		if IsEndpoint(pod, terminating) {
			addPod(byPort, view, pod)
		}
	}
	byAddresses := map[string]*subset{}
	for _, key := range slices.Sorted(maps.Keys(byPort)) {
		one := byPort[key]
		if known := byAddresses[one.addressKey()]; known != nil {
			known.ports = append(known.ports, one.ports...)
			continue
		}
		byAddresses[one.addressKey()] = one
	}
	var found []corev1.EndpointSubset //nolint:staticcheck // as above
	for _, key := range slices.Sorted(maps.Keys(byAddresses)) {
		one := byAddresses[key]
		found = append(found, corev1.EndpointSubset{ //nolint:staticcheck // as above
			Addresses: one.ready, NotReadyAddresses: one.notReady, Ports: one.ports,
		})
	}
	return found
}

// addPod adds the pod's address to the subset of each of its ports.
func addPod(byPort map[string]*subset, view View, pod *corev1.Pod) {
	address := corev1.EndpointAddress{
		IP:        pod.Status.PodIP,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		address.NodeName = new(pod.Spec.NodeName)
	}
	if pod.Spec.Subdomain == view.Service.Name {
		address.Hostname = pod.Spec.Hostname
	}
	ports := podPorts(view.Service, pod)
	if len(ports) == 0 && isHeadless(view.Service) {
		subsetAt(byPort, "").add(view, pod, address)
	}
	for _, p := range ports {
		one := subsetAt(byPort, fmt.Sprintf("%s/%s/%05d", *p.Name, *p.Protocol, *p.Port))
		one.ports = []corev1.EndpointPort{{Name: *p.Name, Port: *p.Port, Protocol: *p.Protocol, AppProtocol: p.AppProtocol}}
		one.add(view, pod, address)
	}
}

func subsetAt(byPort map[string]*subset, key string) *subset {
	if byPort[key] == nil {
		byPort[key] = &subset{}
	}
	return byPort[key]
}

func (s *subset) add(view View, pod *corev1.Pod, address corev1.EndpointAddress) {
	into := &s.notReady
	if view.Service.Spec.PublishNotReadyAddresses || Ready(pod) {
		into = &s.ready
	}
	*into = append(*into, address)
	slices.SortFunc(*into, func(a, b corev1.EndpointAddress) int { return cmp.Compare(a.IP, b.IP) })
}

func (s *subset) addressKey() string {
	var texts []string
	for _, a := range s.ready {
		texts = append(texts, a.IP+"+")
	}
	for _, a := range s.notReady {
		texts = append(texts, a.IP+"-")
	}
	return strings.Join(texts, " ")
}
