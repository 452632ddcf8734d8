package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResources returns what is wrong with the requests and limits of a container.
func validateResources(r corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	f := &findings{}
	limits, requests := at.Child("limits"), at.Child("requests")
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		f.checkResource(name, r.Limits[name], limits.Key(string(name)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		f.checkResource(name, request, requests.Key(string(name)))
		limit, limited := r.Limits[name]
		switch {
		case !limited && !isOvercommitable(name):
			f.required(limits, "Limit must be set for non overcommitable resources")
		case !limited:
		case !isOvercommitable(name) && request.Cmp(limit) != 0:
			f.invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case request.Cmp(limit) > 0:
			f.invalid(requests, request.String(),
				fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		}
	}
	return f.errs
}

// checkResource checks the quantity of one resource of a container.
func (f *findings) checkResource(name corev1.ResourceName, amount resource.Quantity, at *field.Path) {
	f.checkContainerResourceName(name, at)
	f.checkQuantity(at, amount)
	if !isNativeResource(name) && amount.MilliValue()%1000 != 0 {
		f.invalid(at, amount, "must be an integer")
	}
}

// checkContainerResourceName requires the name of a resource that a container can have
// (ValidateContainerResourceName).
func (f *findings) checkContainerResourceName(name corev1.ResourceName, at *field.Path) {
	f.checkResourceName(name, at)
	standard := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	switch {
	case !strings.Contains(string(name), "/"):
		if !slices.Contains(standard, name) && !isHugePages(name) {
			f.invalid(at, name, "must be a standard resource for containers")
		}
	case !isNativeResource(name) && strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix):
		f.invalid(at, name, "doesn't follow extended resource name standard")
	}
}

// checkResourceName requires a qualified name or that of a standard resource (validateResourceName).
func (f *findings) checkResourceName(name corev1.ResourceName, at *field.Path) {
	wrong := validation.IsQualifiedName(string(name))
	f.invalid(at, name, wrong...)
	if len(wrong) == 0 && !strings.Contains(string(name), "/") && !isStandardResource(name) {
		f.invalid(at, name, "must be a standard resource type or fully qualified")
	}
}

// isStandardResource reports whether containers, claims or quotas know a resource without a domain
// (IsStandardResourceName).
func isStandardResource(name corev1.ResourceName) bool {
	return isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) || slices.Contains([]corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceRequestsStorage,
		corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}, name)
}

// isNativeResource reports whether a resource is Kubernetes' own. Other resources are counted in
// whole numbers.
func isNativeResource(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isOvercommitable reports whether the limits of a resource may add up to more than the node has.
func isOvercommitable(name corev1.ResourceName) bool {
	return isNativeResource(name) && !isHugePages(name)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
