package webhook

import (
	"fmt"
	"net"
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/apiserver/store"
)

// Resolve returns the address behind a stored Service: that of an ExternalName, or the first ready
// endpoint on this machine's loopback. Podfall's pods have no network that reaches the apiserver,
// so for any other endpoint Resolve returns an error that says how to configure the webhook.
func Resolve(snapshot *store.Snapshot, ref admissionregistrationv1.ServiceReference) (string, error) {
	record := snapshot.Get(store.Key{Resource: "services", Namespace: ref.Namespace, Name: ref.Name})
	if record == nil {
		return "", apierrors.NewNotFound(corev1.Resource("services"), ref.Name)
	}
	service, ok := record.Object.(*corev1.Service)
	if !ok {
		return "", fmt.Errorf("%s is a %T", record.Key, record.Object)
	}
	wanted := int32(443)
	if ref.Port != nil {
		wanted = *ref.Port
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return joinHostPort(service.Spec.ExternalName, wanted), nil
	}
	for _, port := range service.Spec.Ports {
		if port.Port == wanted {
			return loopbackEndpoint(snapshot, service, port.Name)
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", wanted, ref.Name))
}

func loopbackEndpoint(snapshot *store.Snapshot, service *corev1.Service, portName string) (string, error) {
	elsewhere := ""
	for record := range snapshot.Scan("endpointslices.discovery.k8s.io", service.Namespace, "") {
		slice, ok := record.Object.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		port := portOf(slice, portName)
		for _, end := range slice.Endpoints {
			if port == 0 || end.Conditions.Ready != nil && !*end.Conditions.Ready {
				continue
			}
			for _, address := range end.Addresses {
				if ip := net.ParseIP(address); ip != nil && ip.IsLoopback() {
					return joinHostPort(address, port), nil
				}
				elsewhere = address
			}
		}
	}
	if elsewhere == "" {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf(
		"service %q has the endpoint %s, which podfall cannot reach: its pods have no network; "+
			"give the webhook a clientConfig.url, or make the service an ExternalName of localhost", service.Name, elsewhere))
}

func portOf(slice *discoveryv1.EndpointSlice, name string) int32 {
	for _, port := range slice.Ports {
		if port.Port != nil && (port.Name == nil && name == "" || port.Name != nil && *port.Name == name) {
			return *port.Port
		}
	}
	return 0
}

func joinHostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
