package deployment

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rollingUpdate takes a step of the strategy RollingUpdate (rolloutRolling): up first, then down,
// then the history.
func (s *planning) rollingUpdate() {
	s.syncRevision()
	if s.newSet == nil {
		s.planNewSet()
		return
	}
	if s.scaleUpNew() || s.scaleDownOld() {
		s.updateStatus()
		return
	}
	if s.isComplete(s.Deployment.Status) {
		s.cleanUp()
	}
	s.updateStatus()
}

// scaleUpNew scales the set of the current template, if it does not have its size yet.
func (s *planning) scaleUpNew() bool {
	switch have := replicasOf(s.newSet); {
	case have == s.replicas():
		return false
	case have > s.replicas():
		return s.resize(s.newSet, s.replicas())
	}
	return s.resize(s.newSet, s.newSetReplicas(s.newSet))
}

// newSetReplicas returns how many pods the set of the current template should want next
// (NewRSNewReplicas).
func (s *planning) newSetReplicas(set *appsv1.ReplicaSet) int32 {
	if s.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return s.replicas()
	}
	have := replicasOf(set)
	all := sum(s.allSets(), replicasOf)
	most := s.replicas() + s.maxSurge()
	if all >= most {
		return have
	}
	return have + min(most-all, s.replicas()-have)
}

// scaleDownOld scales old sets down as far as enough pods stay available, unavailable pods first
// (reconcileOldReplicaSets).
func (s *planning) scaleDownOld() bool {
	olds := activeSets(s.oldSets)
	if len(olds) == 0 {
		return false
	}
	least := s.replicas() - s.maxUnavailable()
	most := sum(s.allSets(), replicasOf) - least - (replicasOf(s.newSet) - s.newSet.Status.AvailableReplicas)
	if most <= 0 {
		return false
	}
	slices.SortFunc(olds, byAge)
	left := map[string]int32{}
	var gone int32
	for _, set := range olds {
		have := replicasOf(set)
		left[set.Name] = have
		sick := have - set.Status.AvailableReplicas
		if sick < 0 && gone < most {
			return false // its counts are older than its size: it will say what there is (cleanupUnhealthyReplicas refuses)
		}
		if sick > 0 && gone < most {
			left[set.Name] = have - min(most-gone, sick)
			gone += have - left[set.Name]
		}
	}
	spare := sum(append(slices.Clone(olds), s.newSet), available) - least
	for _, set := range olds {
		if n := min(left[set.Name], spare); n > 0 {
			left[set.Name] -= n
			spare -= n
		}
	}
	changed := false
	for _, set := range olds {
		changed = s.resize(set, left[set.Name]) || changed
	}
	return changed
}

// recreate takes a step of the strategy Recreate (rolloutRecreate): all old pods must be gone
// before a new one is created (CTL-31).
func (s *planning) recreate() {
	s.syncRevision()
	down := false
	for _, set := range activeSets(s.oldSets) {
		down = s.resize(set, 0) || down
	}
	if down || s.oldPodsMayRun() {
		s.updateStatus()
		return
	}
	if s.newSet == nil {
		s.planNewSet()
		return
	}
	s.resize(s.newSet, s.replicas())
	if s.isComplete(s.Deployment.Status) {
		s.cleanUp()
	}
	s.updateStatus()
}

// oldPodsMayRun reports whether a pod of another set is not known to have ended. A pod that is
// being deleted still runs, and a pod on a silent node may.
func (s *planning) oldPodsMayRun() bool {
	if sum(s.oldSets, existing) > 0 {
		return true
	}
	for uid, pods := range s.Pods {
		if s.newSet != nil && s.newSet.UID == uid {
			continue
		}
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
				return true
			}
		}
	}
	return false
}

// maxSurge returns how many pods more than wanted there may be (ResolveFenceposts).
func (s *planning) maxSurge() int32 {
	if s.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0
	}
	surge, _ := s.resolveFenceposts()
	return surge
}

// maxUnavailable returns how many pods fewer than wanted may be available (ResolveFenceposts).
func (s *planning) maxUnavailable() int32 {
	if s.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || s.replicas() == 0 {
		return 0
	}
	_, unavailable := s.resolveFenceposts()
	return min(unavailable, s.replicas())
}

func (s *planning) resolveFenceposts() (surge, unavailable int32) {
	var rolling appsv1.RollingUpdateDeployment
	if given := s.Deployment.Spec.Strategy.RollingUpdate; given != nil {
		rolling = *given
	}
	surge = scaledValue(rolling.MaxSurge, s.replicas(), ceil)
	unavailable = scaledValue(rolling.MaxUnavailable, s.replicas(), floor)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// rounding is how a fraction of a pod is rounded.
type rounding bool

const (
	ceil  rounding = true
	floor rounding = false
)

// scaledValue returns a number, or a percentage of total; 25% if value is nil.
func scaledValue(value *intstr.IntOrString, total int32, way rounding) int32 {
	if value == nil {
		value = new(intstr.FromString("25%"))
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, int(total), bool(way))
	if err != nil {
		return 0
	}
	return int32(number)
}
