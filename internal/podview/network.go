package podview

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// networkPrinter prints the kinds that route traffic to pods.
func networkPrinter(gvk schema.GroupVersionKind) (printer, bool) {
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("Service"):
		return newPrinter(
			View.serviceCells,
			nameColumn(), textColumn("Type", corev1.ServiceSpec{}.SwaggerDoc()["type"]), textColumn("Cluster-IP", corev1.ServiceSpec{}.SwaggerDoc()["clusterIP"]), textColumn("External-IP", corev1.ServiceSpec{}.SwaggerDoc()["externalIPs"]), textColumn("Port(s)", corev1.ServiceSpec{}.SwaggerDoc()["ports"]), ageColumn(),
			wideOnly(textColumn("Selector", corev1.ServiceSpec{}.SwaggerDoc()["selector"])),
		), true
	case discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):
		return newPrinter(
			View.endpointSliceCells,
			nameColumn(), textColumn("AddressType", discoveryv1.EndpointSlice{}.SwaggerDoc()["addressType"]), textColumn("Ports", discoveryv1.EndpointSlice{}.SwaggerDoc()["ports"]), textColumn("Endpoints", discoveryv1.EndpointSlice{}.SwaggerDoc()["endpoints"]), ageColumn(),
		), true
	case corev1.SchemeGroupVersion.WithKind("Endpoints"):
		return newPrinter(func(v View, endpoints *corev1.Endpoints) []any { //nolint:staticcheck // deprecated, and still served
			return []any{endpoints.Name, formatEndpoints(endpoints), v.objectAge(endpoints)}
		}, nameColumn(), textColumn("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]), ageColumn()), true //nolint:staticcheck // as above
	case networkingv1.SchemeGroupVersion.WithKind("Ingress"):
		return newPrinter(
			View.ingressCells,
			nameColumn(),
			textColumn("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			textColumn("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			textColumn("Address", "Address is a list containing ingress points for the load-balancer"),
			textColumn("Ports", "Ports of TLS configurations that open"),
			ageColumn(),
		), true
	case networkingv1.SchemeGroupVersion.WithKind("IngressClass"):
		return newPrinter(
			View.ingressClassCells,
			nameColumn(), textColumn("Controller", "Controller that is responsible for handling this class"),
			textColumn("Parameters", "A reference to a resource with additional parameters"), ageColumn(),
		), true
	default:
		return printer{}, false
	}
}

func (v View) ingressCells(ingress *networkingv1.Ingress) []any {
	var hosts, addresses []string
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	for _, at := range ingress.Status.LoadBalancer.Ingress {
		if address := at.IP + at.Hostname; at.IP == "" || at.Hostname == "" {
			addresses = append(addresses, address)
		} else {
			addresses = append(addresses, at.IP)
		}
	}
	ports := "80"
	if len(ingress.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	slices.Sort(addresses)
	return []any{
		ingress.Name, valueOr(ingress.Spec.IngressClassName, none), joinFew(hosts, "*"), strings.Join(slices.Compact(addresses), ","), ports,
		v.objectAge(ingress),
	}
}

func (v View) ingressClassCells(class *networkingv1.IngressClass) []any {
	parameters := none
	if p := class.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{class.Name, class.Spec.Controller, parameters, v.objectAge(class)}
}

func (v View) serviceCells(service *corev1.Service) []any {
	ip := none
	if len(service.Spec.ClusterIPs) > 0 {
		ip = service.Spec.ClusterIPs[0]
	}
	ports := make([]string, len(service.Spec.Ports))
	for i, port := range service.Spec.Ports {
		ports[i] = fmt.Sprintf("%d/%s", port.Port, port.Protocol)
		if port.NodePort > 0 {
			ports[i] = fmt.Sprintf("%d:%d/%s", port.Port, port.NodePort, port.Protocol)
		}
	}
	return []any{
		service.Name,
		string(service.Spec.Type),
		ip,
		externalIP(service),
		orNone(strings.Join(ports, ",")),
		v.objectAge(service),
		labels.FormatLabels(service.Spec.Selector),
	}
}

func externalIP(service *corev1.Service) string {
	addresses := service.Spec.ExternalIPs
	switch service.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return service.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var given []string
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				given = append(given, ingress.IP)
			} else if ingress.Hostname != "" {
				given = append(given, ingress.Hostname)
			}
		}
		slices.Sort(given)
		if addresses = append(slices.Compact(given), addresses...); len(addresses) == 0 {
			return "<pending>"
		}
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
	default:
		return unknown
	}
	return orNone(strings.Join(addresses, ","))
}

// maxListed is how many elements of a list a cell shows before it shows the number of the others.
const maxListed = 3

func joinFew(list []string, otherwise string) string {
	switch {
	case len(list) == 0:
		return otherwise
	case len(list) > maxListed:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:maxListed], ","), len(list)-maxListed)
	default:
		return strings.Join(list, ",")
	}
}

func (v View) endpointSliceCells(slice *discoveryv1.EndpointSlice) []any {
	var ports, addresses []string
	for _, port := range slice.Ports {
		switch {
		case port.Port != nil:
			ports = append(ports, strconv.Itoa(int(*port.Port)))
		case port.Name != nil:
			ports = append(ports, *port.Name)
		default:
			ports = append(ports, "*")
		}
	}
	for _, endpoint := range slice.Endpoints {
		addresses = append(addresses, endpoint.Addresses...)
	}
	return []any{
		slice.Name, string(slice.AddressType), joinFew(ports, "<unset>"), joinFew(addresses, "<unset>"), v.objectAge(slice),
	}
}

func formatEndpoints(endpoints *corev1.Endpoints) string { //nolint:staticcheck // as above
	var list []string
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			if len(subset.Ports) == 0 {
				list = append(list, address.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				list = append(list, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	return joinFew(list, none)
}
