package admission

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// victimsFor returns pods of lower priority whose end makes room for a critical pod: as few and as
// unimportant as possible, weakest QoS class first; none if even all of them do not suffice.
func victimsFor(pod *corev1.Pod, host Host, lacks []shortage) []*corev1.Pod {
	candidates := slices.DeleteFunc(slices.Clone(host.Pods), func(other *corev1.Pod) bool {
		return podstate.IsCritical(other) || podstate.Priority(other) >= podstate.Priority(pod) && !podstate.IsStatic(pod)
	})
	slices.SortStableFunc(candidates, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(qosRank(a), qosRank(b)),
			cmp.Compare(podstate.Priority(a), podstate.Priority(b)),
			-cmp.Compare(countRelieved(a, lacks), countRelieved(b, lacks)),
		)
	})
	var victims []*corev1.Pod
	for i, candidate := range candidates {
		victims = candidates[:i+1]
		if isEnough(victims, lacks) {
			return dropNeedless(victims, lacks, candidate)
		}
	}
	return nil
}

// qosRank orders pods by QoS class.
func qosRank(pod *corev1.Pod) int {
	switch podstate.QOS(pod) {
	case corev1.PodQOSBestEffort:
		return 0
	case corev1.PodQOSBurstable:
		return 1
	case corev1.PodQOSGuaranteed:
	}
	return 2
}

// countRelieved returns how many of the shortages the pod's end reduces.
func countRelieved(pod *corev1.Pod, lacks []shortage) int {
	n := 0
	for _, lack := range lacks {
		if Request(pod, lack.name) > 0 {
			n++
		}
	}
	return n
}

func isEnough(victims []*corev1.Pod, lacks []shortage) bool {
	for _, lack := range lacks {
		missing := lack.asked + lack.used - lack.capacity
		for _, victim := range victims {
			missing -= Request(victim, lack.name)
		}
		if missing > 0 {
			return false
		}
	}
	return true
}

// dropNeedless removes victims that are not needed to make enough room. The last one is needed.
func dropNeedless(victims []*corev1.Pod, lacks []shortage, last *corev1.Pod) []*corev1.Pod {
	needed := slices.Clone(victims)
	for _, victim := range victims {
		without := slices.DeleteFunc(slices.Clone(needed), func(p *corev1.Pod) bool { return p == victim })
		if victim != last && isEnough(without, lacks) {
			needed = without
		}
	}
	return needed
}
