package podworker

import (
	"testing"

	protobuf "google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/proto"
)

func TestResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		all := corev1.ResourceList{}
		if cpu != "" {
			all[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			all[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return all
	}
	for name, row := range map[string]struct {
		requests, limits corev1.ResourceList
		want             *proto.LinuxContainerResources
	}{
		"none":              {nil, nil, &proto.LinuxContainerResources{CpuShares: 2}},
		"requests":          {list("250m", "1Gi"), nil, &proto.LinuxContainerResources{CpuShares: 256}},
		"limits":            {nil, list("500m", "64Mi"), &proto.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100000, CpuQuota: 50000, MemoryLimitInBytes: 64 << 20}},
		"both":              {list("1", ""), list("2", ""), &proto.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 200000}},
		"the least that is": {nil, list("1m", ""), &proto.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000}},
	} {
		spec := &corev1.Container{Resources: corev1.ResourceRequirements{Requests: row.requests, Limits: row.limits}}
		if got := resourcesOf(spec); !protobuf.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func TestCgroup(t *testing.T) {
	for class, want := range map[corev1.PodQOSClass]string{
		corev1.PodQOSGuaranteed: "/kubepods/podu", corev1.PodQOSBurstable: "/kubepods/burstable/podu", corev1.PodQOSBestEffort: "/kubepods/besteffort/podu",
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{QOSClass: class}}
		pod.UID = "u"
		if got := cgroupOf(pod); got != want {
			t.Errorf("%s: %s, want %s", class, got, want)
		}
	}
}
