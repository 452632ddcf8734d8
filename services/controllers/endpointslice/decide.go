// Package endpointslice publishes the addresses behind a Service, in EndpointSlices and in the
// older Endpoints (CTL-50). decide.go and slices.go plan the slices, endpoints.go the Endpoints;
// controller.go reads and writes.
package endpointslice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// MaxEndpoints is how many endpoints one slice holds.
const MaxEndpoints = 100

// ManagedBy is the label value of this controller's slices.
const ManagedBy = "endpointslice-controller.k8s.io"

// View is a service and the pods that could be behind it.
type View struct {
	Service *corev1.Service
	// Pods are those that the service selects.
	Pods []*corev1.Pod
	// Zones has the zone of each node by its name.
	Zones map[string]string
	// Slices are those that this controller has written for the service.
	Slices []*discoveryv1.EndpointSlice
}

// HasSelector reports whether the service selects pods; the endpoints of other services are not
// changed.
func HasSelector(service *corev1.Service) bool {
	return len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName
}

// IsEndpoint reports whether a pod is an endpoint of its services. It has an address and is not
// terminal. A terminating pod counts only WithTerminating (ShouldPodBeInEndpoints).
func IsEndpoint(pod *corev1.Pod, terminating Terminating) bool {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return false
	case len(pod.Status.PodIPs) == 0 && pod.Status.PodIP == "":
		return false
	}
	return pod.DeletionTimestamp == nil || terminating == WithTerminating
}

// Terminating is whether terminating pods count.
type Terminating int

// Whether a terminating pod is an endpoint.
const (
	WithoutTerminating Terminating = iota
	WithTerminating
)

// group is the endpoints that share ports and an address family.
type group struct {
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

func (g group) key() string { return portsKey(g.family, g.ports) }

func portsKey(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	texts := make([]string, 0, len(ports))
	for _, p := range ports {
		texts = append(texts, fmt.Sprintf("%s/%s/%s/%s", formatPointer(p.Name), formatPointer(p.Protocol), formatPointer(p.Port), formatPointer(p.AppProtocol)))
	}
	slices.Sort(texts)
	return string(family) + " " + strings.Join(texts, " ")
}

func formatPointer[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// groupEndpoints returns the wanted endpoints, in the order of the pods.
func groupEndpoints(view View) []group {
	var found []group
	for _, family := range families(view.Service) {
		for _, pod := range view.Pods {
			address := addressOf(pod, family)
			if address == "" || !IsEndpoint(pod, WithTerminating) {
				continue
			}
			ports := podPorts(view.Service, pod)
			if len(ports) == 0 && len(view.Service.Spec.Ports) > 0 && !isHeadless(view.Service) {
				continue
			}
			key := portsKey(family, ports)
			i := slices.IndexFunc(found, func(g group) bool { return g.key() == key })
			if i < 0 {
				i, found = len(found), append(found, group{family: family, ports: ports})
			}
			found[i].endpoints = append(found[i].endpoints, newEndpoint(view, pod, address))
		}
	}
	return found
}

func families(service *corev1.Service) []discoveryv1.AddressType {
	var found []discoveryv1.AddressType
	for _, family := range service.Spec.IPFamilies {
		found = append(found, discoveryv1.AddressType(family))
	}
	if len(found) == 0 {
		found = []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4}
	}
	return found
}

func addressOf(pod *corev1.Pod, family discoveryv1.AddressType) string {
	addresses := []string{pod.Status.PodIP}
	for _, ip := range pod.Status.PodIPs {
		addresses = append(addresses, ip.IP)
	}
	for _, address := range addresses {
		if address != "" && strings.Contains(address, ":") == (family == discoveryv1.AddressTypeIPv6) {
			return address
		}
	}
	return ""
}

func isHeadless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

// podPorts are the pod's ports for the service's ports. A named port that the pod lacks is left
// out.
func podPorts(service *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for _, port := range service.Spec.Ports {
		number := FindPort(pod, port)
		if number == 0 {
			continue
		}
		protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
		ports = append(ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &number, Protocol: &protocol, AppProtocol: port.AppProtocol})
	}
	return ports
}

// FindPort returns the pod's port number for a service's port; 0 if the pod has no port of that
// name.
func FindPort(pod *corev1.Pod, port corev1.ServicePort) int32 {
	if port.TargetPort.StrVal == "" {
		return cmp.Or(port.TargetPort.IntVal, port.Port)
	}
	containers := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	for _, container := range containers {
		for _, p := range container.Ports {
			if p.Name == port.TargetPort.StrVal && cmp.Or(p.Protocol, corev1.ProtocolTCP) == cmp.Or(port.Protocol, corev1.ProtocolTCP) {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// newEndpoint returns the pod's endpoint (podToEndpoint).
func newEndpoint(view View, pod *corev1.Pod, address string) discoveryv1.Endpoint {
	serving, terminating := Ready(pod), pod.DeletionTimestamp != nil
	ready := view.Service.Spec.PublishNotReadyAddresses || serving && !terminating
	endpoint := discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		endpoint.NodeName = new(pod.Spec.NodeName)
		if zone := view.Zones[pod.Spec.NodeName]; zone != "" {
			endpoint.Zone = &zone
		}
	}
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain == view.Service.Name {
		endpoint.Hostname = new(pod.Spec.Hostname)
	}
	return endpoint
}

// Ready reports whether the pod's condition Ready is true.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
