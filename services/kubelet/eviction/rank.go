package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Pod is a candidate for eviction, and what each of its containers uses.
type Pod struct {
	Spec *corev1.Pod
	Uses map[string]corev1.ResourceList
}

// used returns how much of the resource the pod uses.
func (p Pod) used(name corev1.ResourceName) int64 {
	var total int64
	for _, uses := range p.Uses {
		total += uses.Name(name, "").Value()
	}
	return total
}

// requested returns how much of the resource the pod requests.
func (p Pod) requested(name corev1.ResourceName) int64 {
	var total int64
	for _, c := range p.Spec.Spec.Containers {
		total += c.Resources.Requests.Name(name, "").Value()
	}
	return total
}

// excessRank returns 0 for a pod that uses more than it requests, which is evicted first, else 1.
func (p Pod) excessRank(name corev1.ResourceName) int {
	if p.used(name) > p.requested(name) {
		return 0
	}
	return 1
}

// Rank orders pods for eviction, the first to evict first (upstream's rankMemoryPressure,
// rankDiskPressureFunc and rankPIDPressure): pods that use more than they request, then lower
// priorities, then the largest excess. Pids have no requests.
func Rank(pods []Pod, signal Signal) []Pod {
	name := signal.resource()
	ranked := slices.Clone(pods)
	slices.SortStableFunc(ranked, func(a, b Pod) int {
		byExcess := cmp.Compare(a.excessRank(name), b.excessRank(name))
		if signal == PIDAvailable {
			byExcess = 0
		}
		return cmp.Or(
			byExcess,
			cmp.Compare(podstate.Priority(a.Spec), podstate.Priority(b.Spec)),
			-cmp.Compare(a.used(name)-a.requested(name), b.used(name)-b.requested(name)),
		)
	})
	return ranked
}

// findVictim returns the first pod that may be evicted. Critical pods may not.
func findVictim(pods []Pod, signal Signal) (Pod, bool) {
	for _, pod := range Rank(pods, signal) {
		if !podstate.IsCritical(pod.Spec) {
			return pod, true
		}
	}
	return Pod{}, false
}
