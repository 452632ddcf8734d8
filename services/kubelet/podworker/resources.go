package podworker

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// The scales of processor time, as upstream sets them.
const (
	cpuPeriod     = 100_000 // µs
	leastCPUQuota = 1_000   // µs
	leastShares   = 2
	sharesOfOne   = 1024
)

// resourcesOf is what a container's resources mean to a runtime: limits bound it, and a
// request for processors is its share when there are too few.
func resourcesOf(spec *corev1.Container) *proto.LinuxContainerResources {
	request, limit := spec.Resources.Requests.Cpu(), spec.Resources.Limits.Cpu()
	if request.IsZero() {
		request = limit
	}
	resources := &proto.LinuxContainerResources{
		CpuShares:          max(leastShares, request.MilliValue()*sharesOfOne/1000),
		MemoryLimitInBytes: spec.Resources.Limits.Memory().Value(),
	}
	if !limit.IsZero() {
		resources.CpuPeriod, resources.CpuQuota = cpuPeriod, max(leastCPUQuota, limit.MilliValue()*cpuPeriod/1000)
	}
	return resources
}

// cgroupOf is the pod's cgroup: those of a QoS class are together, but for the guaranteed.
func cgroupOf(pod *corev1.Pod) string {
	class := ""
	if qos := pod.Status.QOSClass; qos != "" && qos != corev1.PodQOSGuaranteed {
		class = "/" + strings.ToLower(string(qos))
	}
	return "/kubepods" + class + "/pod" + string(pod.UID)
}
