package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// updateLimits returns how many nodes may have two pods, and how many may have no available one; at
// least one of both is positive (updatedDesiredNodeCounts).
func (s *planning) updateLimits() (surge, unavailable int) {
	desired := 0
	for _, node := range s.Nodes {
		if should, _ := ShouldRun(s.Set, node); should {
			desired++
		}
	}
	unavailable = 1
	rolling := s.Set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || s.Set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return 0, unavailable
	}
	if rolling.MaxSurge != nil {
		surge, _ = intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, desired, true)
	}
	if rolling.MaxUnavailable != nil {
		unavailable, _ = intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, desired, true)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// rollingUpdate replaces pods of an old template (rollingUpdate).
func (s *planning) rollingUpdate() {
	if surge, unavailable := s.updateLimits(); surge > 0 {
		s.updateWithSurge(surge)
	} else {
		s.updateWithoutSurge(unavailable)
	}
}

// newAndOld returns the pod of the current template and the old pod of a node; ok is false if there
// are more of either.
func (s *planning) newAndOld(pods []*corev1.Pod) (newPod, oldPod *corev1.Pod, ok bool) {
	for _, pod := range pods {
		switch isNew := hashOf(pod) == s.Hash; {
		case pod.DeletionTimestamp != nil:
		case isNew && newPod == nil:
			newPod = pod
		case !isNew && oldPod == nil:
			oldPod = pod
		default:
			return nil, nil, false
		}
	}
	return newPod, oldPod, true
}

// updateWithoutSurge deletes old pods as long as not too many nodes lack an available one. Old pods
// that are not available go first.
func (s *planning) updateWithoutSurge(most int) {
	var candidates []*corev1.Pod
	missing := 0
	for _, node := range s.Nodes {
		pods, there := s.onNode[node.Name]
		if !there {
			continue
		}
		newPod, oldPod, ok := s.newAndOld(pods)
		switch {
		case !ok, (newPod == nil) == (oldPod == nil):
			missing++
		case newPod != nil:
			if !s.isAvailable(newPod) {
				missing++
			}
		case !s.isAvailable(oldPod):
			s.Delete = append(s.Delete, oldPod)
			missing++
		default:
			candidates = append(candidates, oldPod)
		}
	}
	s.Delete = append(s.Delete, candidates[:min(max(most-missing, 0), len(candidates))]...)
}

// updateWithSurge creates new pods beside old ones on as many nodes as may have two. It deletes the
// old pod once the new one is available.
func (s *planning) updateWithSurge(most int) {
	var candidates []string
	surging := 0
	for _, node := range s.Nodes {
		pods, there := s.onNode[node.Name]
		if !there {
			continue
		}
		newPod, oldPod, ok := s.newAndOld(pods)
		switch {
		case !ok:
			surging++
		case oldPod == nil:
		case newPod == nil && !s.isAvailable(oldPod):
			s.Create = append(s.Create, node.Name)
		case newPod == nil:
			candidates = append(candidates, node.Name)
		case !s.isAvailable(newPod):
			surging++
		default:
			s.Delete = append(s.Delete, oldPod)
		}
	}
	s.Create = append(s.Create, candidates[:min(max(most-surging, 0), len(candidates))]...)
}
