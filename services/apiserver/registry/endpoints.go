package registry

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// endpointsRules returns the rules of Endpoints.
func endpointsRules() rules[*corev1.Endpoints] { //nolint:staticcheck // deprecated, and still served
	return rules[*corev1.Endpoints]{ //nolint:staticcheck // as above
		defaults: func(e *corev1.Endpoints) { //nolint:staticcheck // as above
			for i := range e.Subsets {
				for j := range e.Subsets[i].Ports {
					fill(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
				}
			}
		},
		validate: func(e *corev1.Endpoints) field.ErrorList { //nolint:staticcheck // as above
			f := &findings{}
			for i := range e.Subsets {
				f.checkSubset(field.NewPath("subsets").Index(i), &e.Subsets[i])
			}
			return f.errs
		},
	}
}

func (f *findings) checkSubset(at *field.Path, subset *corev1.EndpointSubset) { //nolint:staticcheck // as above
	if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
		f.required(at, "must specify `addresses` or `notReadyAddresses`")
	}
	for _, list := range []struct {
		name      string
		addresses []corev1.EndpointAddress
	}{{"addresses", subset.Addresses}, {"notReadyAddresses", subset.NotReadyAddresses}} {
		for i, address := range list.addresses {
			item := at.Child(list.name).Index(i)
			f.add(validation.IsValidIPForLegacyField(item.Child("ip"), address.IP, false, nil)...)
			if address.Hostname != "" {
				f.checkLabel(item.Child("hostname"), address.Hostname)
			}
		}
	}
	for i, port := range subset.Ports {
		item := at.Child("ports").Index(i)
		if port.Name == "" && len(subset.Ports) > 1 {
			f.required(item.Child("name"), "")
		} else if port.Name != "" {
			f.checkLabel(item.Child("name"), port.Name)
		}
		f.invalid(item.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port))...)
		checkOneOf(f, item.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
	}
}

// The limits of an EndpointSlice.
const (
	maxEndpoints = 1000
	maxAddresses = 100
	maxPorts     = 20000
)

// endpointSliceRules returns the rules of EndpointSlices.
func endpointSliceRules() rules[*discoveryv1.EndpointSlice] {
	return rules[*discoveryv1.EndpointSlice]{
		defaults: func(slice *discoveryv1.EndpointSlice) {
			for i := range slice.Ports {
				fillPointer(&slice.Ports[i].Name, "")
				fillPointer(&slice.Ports[i].Protocol, corev1.ProtocolTCP)
			}
		},
		validate: validateEndpointSlice,
		validateUpdate: func(slice, old *discoveryv1.EndpointSlice) field.ErrorList {
			f := &findings{}
			f.checkImmutable(slice.AddressType, old.AddressType, field.NewPath("addressType"))
			return f.errs
		},
	}
}

func validateEndpointSlice(slice *discoveryv1.EndpointSlice) field.ErrorList {
	f := &findings{}
	checkOneOf(f, field.NewPath("addressType"), slice.AddressType,
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	at := field.NewPath("endpoints")
	if len(slice.Endpoints) > maxEndpoints {
		f.add(field.TooMany(at, len(slice.Endpoints), maxEndpoints))
		return f.errs
	}
	for i := range slice.Endpoints {
		f.checkEndpoint(at.Index(i), &slice.Endpoints[i], slice.AddressType)
	}
	ports := field.NewPath("ports")
	if len(slice.Ports) > maxPorts {
		f.add(field.TooMany(ports, len(slice.Ports), maxPorts))
		return f.errs
	}
	names := map[string]bool{}
	for i, port := range slice.Ports {
		item := ports.Index(i)
		if *port.Name != "" {
			f.invalid(item.Child("name"), *port.Name, validation.IsDNS1123Label(*port.Name)...)
		}
		f.checkUnique(names, *port.Name, item.Child("name"))
		protocols := []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
		if !slices.Contains(protocols, *port.Protocol) {
			f.add(field.NotSupported(item.Child("protocol"), *port.Protocol, protocols))
		}
		if port.Port != nil {
			f.invalid(item.Child("port"), *port.Port, validation.IsValidPortNum(int(*port.Port))...)
		}
	}
	return f.errs
}

func (f *findings) checkEndpoint(at *field.Path, endpoint *discoveryv1.Endpoint, family discoveryv1.AddressType) {
	addresses := at.Child("addresses")
	switch n := len(endpoint.Addresses); {
	case n == 0:
		f.required(addresses, "must contain at least 1 address")
	case n > maxAddresses:
		f.add(field.TooMany(addresses, n, maxAddresses))
	}
	for i, address := range endpoint.Addresses {
		switch family {
		case discoveryv1.AddressTypeIPv4:
			f.add(validation.IsValidIPForLegacyField(addresses.Index(i), address, false, nil)...)
		case discoveryv1.AddressTypeIPv6:
			f.add(validation.IsValidIPForLegacyField(addresses.Index(i), address, false, nil)...)
		case discoveryv1.AddressTypeFQDN:
			f.invalid(addresses.Index(i), address, validation.IsDNS1123Subdomain(address)...)
		default:
			f.invalid(addresses.Index(i), address, fmt.Sprintf("not an address of type %s", family))
		}
	}
	if endpoint.NodeName != nil {
		f.invalid(at.Child("nodeName"), *endpoint.NodeName, validation.IsDNS1123Subdomain(*endpoint.NodeName)...)
	}
	if endpoint.Hostname != nil && *endpoint.Hostname != "" {
		f.checkLabel(at.Child("hostname"), *endpoint.Hostname)
	}
}
