package podworker

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// Constants for CPU shares and quotas, as upstream sets them.
const (
	cpuPeriod    = 100_000 // µs
	minCPUQuota  = 1_000   // µs
	minShares    = 2
	sharesPerCPU = 1024
)

// resourcesOf converts a container's resources for the runtime. Limits are upper bounds; the CPU
// request is the container's share when CPUs are scarce.
func resourcesOf(spec *corev1.Container) *proto.LinuxContainerResources {
	request, limit := spec.Resources.Requests.Cpu(), spec.Resources.Limits.Cpu()
	if request.IsZero() {
		request = limit
	}
	resources := &proto.LinuxContainerResources{
		CpuShares:          max(minShares, request.MilliValue()*sharesPerCPU/1000),
		MemoryLimitInBytes: spec.Resources.Limits.Memory().Value(),
	}
	if !limit.IsZero() {
		resources.CpuPeriod, resources.CpuQuota = cpuPeriod, max(minCPUQuota, limit.MilliValue()*cpuPeriod/1000)
	}
	return resources
}

// cgroupOf returns the path of the pod's cgroup. BestEffort and Burstable pods are in a cgroup of
// their class.
func cgroupOf(pod *corev1.Pod) string {
	class := ""
	if qos := pod.Status.QOSClass; qos != "" && qos != corev1.PodQOSGuaranteed {
		class = "/" + strings.ToLower(string(qos))
	}
	return "/kubepods" + class + "/pod" + string(pod.UID)
}
