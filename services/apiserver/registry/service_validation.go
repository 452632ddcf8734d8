package registry

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateService returns what is wrong with a Service on its own, in the order and the texts of
// upstream's ValidateService.
func validateService(svc *corev1.Service) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &svc.Spec
	if len(spec.Ports) == 0 && !isHeadless(spec) && spec.Type != corev1.ServiceTypeExternalName {
		f.required(at.Child("ports"), "")
	}
	f.checkServiceType(at, spec)
	f.checkServicePorts(at.Child("ports"), spec)
	f.add(sortPerField(unversioned.ValidateLabels(spec.Selector, at.Child("selector")))...)
	checkOneOf(f, at.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	if config := spec.SessionAffinityConfig; config != nil && config.ClientIP != nil && config.ClientIP.TimeoutSeconds != nil {
		if seconds := *config.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > 86400 {
			f.invalid(at.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), seconds, "must be greater than 0 and less than 86400")
		}
	}
	f.checkClusterIPs(at.Child("clusterIPs"), spec)
	for i, address := range spec.ExternalIPs {
		f.add(validation.IsValidIPForLegacyField(at.Child("externalIPs").Index(i), address, false, nil)...)
	}
	checkOneOf(f, at.Child("type"), spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	f.checkNodePorts(at.Child("ports"), spec)
	f.checkTrafficPolicies(at, spec)
	return f.errs
}

func (f *findings) checkServiceType(at *field.Path, spec *corev1.ServiceSpec) {
	switch spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if isHeadless(spec) {
			f.invalid(at.Child("clusterIPs").Index(0), spec.ClusterIP,
				fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))
		}
	case corev1.ServiceTypeExternalName:
		if spec.ClusterIP != "" || len(spec.ClusterIPs) > 0 {
			f.forbidden(at.Child("clusterIPs"), "may not be set for ExternalName services")
		}
		if f.checkNotEmpty(at.Child("externalName"), spec.ExternalName) {
			f.invalid(at.Child("externalName"), spec.ExternalName, validation.IsDNS1123Subdomain(spec.ExternalName)...)
		}
	case corev1.ServiceTypeClusterIP:
	}
}

func (f *findings) checkServicePorts(at *field.Path, spec *corev1.ServiceSpec) {
	names := map[string]bool{}
	type place struct {
		protocol corev1.Protocol
		port     int32
	}
	places := map[place]bool{}
	for i, port := range spec.Ports {
		item := at.Index(i)
		switch {
		case port.Name == "" && len(spec.Ports) > 1:
			f.required(item.Child("name"), "")
		case port.Name != "":
			f.invalid(item.Child("name"), port.Name, validation.IsDNS1123Label(port.Name)...)
			f.checkUnique(names, port.Name, item.Child("name"))
		}
		f.invalid(item.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port))...)
		checkOneOf(f, item.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
		f.checkPort(item.Child("targetPort"), port.TargetPort)
		if isHeadless(spec) && spec.Type != corev1.ServiceTypeExternalName && port.NodePort != 0 {
			f.invalid(item.Child("nodePort"), port.NodePort, "may not be set for headless services")
		}
	}
	for i, port := range spec.Ports {
		key := place{port.Protocol, port.Port}
		if places[key] {
			f.add(field.Duplicate(at.Index(i), corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}))
		}
		places[key] = true
	}
}

// checkClusterIPs requires one address of the cluster's family, or none.
func (f *findings) checkClusterIPs(at *field.Path, spec *corev1.ServiceSpec) {
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if len(spec.ClusterIPs) > 0 && spec.ClusterIP != spec.ClusterIPs[0] {
		f.invalid(at, spec.ClusterIPs, "first value must match `clusterIP`")
	}
	if len(spec.ClusterIPs) > 2 {
		f.invalid(at, spec.ClusterIPs, "may only hold up to 2 values")
	}
	for i, ip := range spec.ClusterIPs {
		switch {
		case i == 0 && ip == corev1.ClusterIPNone:
			if len(spec.ClusterIPs) > 1 {
				f.invalid(at.Index(i), ip, "'None' must be the first and only value")
			}
		case ip == corev1.ClusterIPNone:
			f.invalid(at.Index(i), ip, "'None' must be the first and only value")
		default:
			f.add(validation.IsValidIPForLegacyField(at.Index(i), ip, false, nil)...)
		}
	}
}

// checkNodePorts refuses node ports of an internal Service, and duplicate ones.
func (f *findings) checkNodePorts(at *field.Path, spec *corev1.ServiceSpec) {
	type place struct {
		protocol corev1.Protocol
		port     int32
	}
	seen := map[place]bool{}
	for i, port := range spec.Ports {
		if port.NodePort == 0 {
			continue
		}
		nodePort := at.Index(i).Child("nodePort")
		if spec.Type == corev1.ServiceTypeClusterIP && !isHeadless(spec) {
			f.forbidden(nodePort, "may not be used when `type` is 'ClusterIP'")
		}
		key := place{port.Protocol, port.NodePort}
		if seen[key] {
			f.add(field.Duplicate(nodePort, port.NodePort))
		}
		seen[key] = true
	}
}

func (f *findings) checkTrafficPolicies(at *field.Path, spec *corev1.ServiceSpec) {
	external := at.Child("externalTrafficPolicy")
	outside := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer || len(spec.ExternalIPs) > 0
	switch policy := spec.ExternalTrafficPolicy; {
	case policy == "" && !outside:
	case !outside:
		f.invalid(external, policy, "may only be set for externally-accessible services")
	default:
		checkOneOf(f, external, policy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	}
	if policy := spec.InternalTrafficPolicy; policy != nil {
		checkOneOf(f, at.Child("internalTrafficPolicy"), *policy,
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		if spec.LoadBalancerClass != nil {
			f.forbidden(at.Child("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'")
		}
		if spec.AllocateLoadBalancerNodePorts != nil {
			f.forbidden(at.Child("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'")
		}
	}
}
