package registry

import corev1 "k8s.io/api/core/v1"

// qosClass returns a Pod's quality of service, which ranks it when its node runs out of memory.
// Guaranteed: every container requests its limits of CPU and memory. BestEffort: no container
// requests anything. Burstable: otherwise.
func qosClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	if spec.Resources != nil && (len(spec.Resources.Limits) > 0 || len(spec.Resources.Requests) > 0) {
		return containerQOS(*spec.Resources)
	}
	class := corev1.PodQOSClass("")
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			one := containerQOS(containers[i].Resources)
			if class != "" && one != class {
				return corev1.PodQOSBurstable
			}
			class = one
		}
	}
	if class == "" {
		return corev1.PodQOSBestEffort
	}
	return class
}

func containerQOS(r corev1.ResourceRequirements) corev1.PodQOSClass {
	asks, guaranteed := false, true
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		asks = asks || request.Sign() > 0 || limit.Sign() > 0
		if asked := request.Sign() > 0; limit.Sign() <= 0 || asked && request.Cmp(limit) != 0 {
			guaranteed = false
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
