package registry

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// serviceRules returns the rules of Services. The cluster is single-stack: IPv4. Missing addresses
// and node ports are allocated in service_address.go, which needs to know the other Services.
func serviceRules() rules[*corev1.Service] {
	return rules[*corev1.Service]{
		defaults:       defaultService,
		keep:           keepServiceAddresses,
		validate:       validateService,
		validateUpdate: validateServiceUpdate,
	}
}

// defaultService is upstream's SetDefaults_Service, with the IP families that upstream's storage
// adds.
func defaultService(svc *corev1.Service) {
	spec := &svc.Spec
	fill(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		fillPointer(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		fillPointer(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		fillPointer(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	fill(&spec.Type, corev1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		fill(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if hasNodePorts(svc) || len(spec.ExternalIPs) > 0 && spec.Type == corev1.ServiceTypeClusterIP {
		fill(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	fillPointer(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		fillPointer(&spec.AllocateLoadBalancerNodePorts, true)
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	defaultFamilies(spec)
}

// defaultFamilies gives a Service the cluster's IP family. Headless Services without a selector get
// both families.
func defaultFamilies(spec *corev1.ServiceSpec) {
	if isHeadless(spec) && len(spec.Selector) == 0 {
		fillPointer(&spec.IPFamilyPolicy, corev1.IPFamilyPolicyRequireDualStack)
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}
		if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
			other := corev1.IPv6Protocol
			if spec.IPFamilies[0] == other {
				other = corev1.IPv4Protocol
			}
			spec.IPFamilies = append(spec.IPFamilies, other)
		}
		return
	}
	fillPointer(&spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
}

// isHeadless reports whether a Service has no cluster IP by request.
func isHeadless(spec *corev1.ServiceSpec) bool { return spec.ClusterIP == corev1.ClusterIPNone }

// hasNodePorts reports whether a Service is reachable by ports of the nodes.
func hasNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// keepServiceAddresses takes over allocated addresses and node ports that an update leaves out. A
// type that needs none releases them.
func keepServiceAddresses(svc, old *corev1.Service) {
	fill(&svc.Spec.Type, corev1.ServiceTypeClusterIP)
	hasIP := func(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }
	if hasIP(svc) && hasIP(old) {
		if svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP == old.Spec.ClusterIP {
			svc.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
	}
	if hasNodePorts(svc) && hasNodePorts(old) {
		for i := range svc.Spec.Ports {
			port := &svc.Spec.Ports[i]
			was := slices.IndexFunc(old.Spec.Ports, func(p corev1.ServicePort) bool {
				return p.Port == port.Port && p.Protocol == orTCP(port.Protocol)
			})
			if port.NodePort == 0 && was >= 0 {
				port.NodePort = old.Spec.Ports[was].NodePort
			}
		}
	}
	if hasNodePorts(old) && !hasNodePorts(svc) {
		releaseNodePorts(svc, old)
	}
	if !hasIP(svc) && hasIP(old) {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = "", nil, nil, nil
		svc.Spec.InternalTrafficPolicy = nil
	}
}

// releaseNodePorts drops node ports that were allocated and not requested.
func releaseNodePorts(svc, old *corev1.Service) {
	for i := range svc.Spec.Ports {
		for _, was := range old.Spec.Ports {
			if svc.Spec.Ports[i].NodePort == was.NodePort {
				svc.Spec.Ports[i].NodePort = 0
			}
		}
	}
	if svc.Spec.ExternalTrafficPolicy == old.Spec.ExternalTrafficPolicy {
		svc.Spec.ExternalTrafficPolicy = ""
	}
	svc.Spec.AllocateLoadBalancerNodePorts = nil
}

func orTCP(protocol corev1.Protocol) corev1.Protocol {
	if protocol == "" {
		return corev1.ProtocolTCP
	}
	return protocol
}

// validateServiceUpdate refuses a changed cluster IP.
func validateServiceUpdate(svc, old *corev1.Service) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec", "clusterIPs")
	if old.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.Type == corev1.ServiceTypeExternalName || len(old.Spec.ClusterIPs) == 0 {
		return nil
	}
	switch {
	case len(svc.Spec.ClusterIPs) == 0:
		f.invalid(at.Index(0), svc.Spec.ClusterIPs, "primary clusterIP can not be unset")
	case svc.Spec.ClusterIPs[0] != old.Spec.ClusterIPs[0]:
		f.invalid(at.Index(0), svc.Spec.ClusterIPs, "may not change once set")
	}
	return f.errs
}
