package deployment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// isScalingEvent reports whether the Deployment's size has changed since its sets were scaled
// (isScalingEvent).
func (s *planning) isScalingEvent() bool {
	for _, set := range activeSets(s.allSets()) {
		if desired, known := intAnnotation(set, desiredReplicasAnnotation); known && desired != s.replicas() {
			return true
		}
	}
	return false
}

// scale distributes the number of pods over the sets (scale): all to the only active set, or,
// during a rollout, to each in proportion.
func (s *planning) scale() {
	if one := s.activeOrLatest(); one != nil {
		s.resize(one, s.replicas())
		return
	}
	if s.saturated() {
		for _, set := range activeSets(s.oldSets) {
			s.resize(set, 0)
		}
		return
	}
	if s.Deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return
	}
	sets := activeSets(s.allSets())
	var allowed int32
	if s.replicas() > 0 {
		allowed = s.replicas() + s.maxSurge()
	}
	toAdd := allowed - sum(sets, replicasOf)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		age := byAge(a, b)
		if toAdd > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(replicasOf(b), replicasOf(a)), age)
	})
	sizes := make([]int32, len(sets))
	var added int32
	for i, set := range sets {
		part := s.proportion(set, toAdd, added)
		sizes[i] = replicasOf(set) + part
		added += part
	}
	for i, set := range sets {
		if i == 0 && toAdd != 0 {
			sizes[i] = max(sizes[i]+toAdd-added, 0)
		}
		s.resize(set, sizes[i])
	}
}

// activeOrLatest returns the only active set, or the newest if none is active; nil if several are
// (FindActiveOrLatest).
func (s *planning) activeOrLatest() *appsv1.ReplicaSet {
	switch running := activeSets(s.allSets()); {
	case len(running) == 1:
		return running[0]
	case len(running) > 1:
		return nil
	case s.newSet != nil:
		return s.newSet
	case len(s.oldSets) > 0:
		return s.oldSets[len(s.oldSets)-1]
	}
	return nil
}

// saturated reports whether the set of the current template has all wanted pods and all are
// available.
func (s *planning) saturated() bool {
	if s.newSet == nil {
		return false
	}
	desired, known := intAnnotation(s.newSet, desiredReplicasAnnotation)
	return known && desired == s.replicas() && replicasOf(s.newSet) == s.replicas() && s.newSet.Status.AvailableReplicas == s.replicas()
}

// proportion returns how many of the pods to add, or to remove, are for a set
// (GetReplicaSetProportion).
func (s *planning) proportion(set *appsv1.ReplicaSet, toAdd, added int32) int32 {
	if replicasOf(set) == 0 || toAdd == 0 || toAdd == added {
		return 0
	}
	fraction := s.fraction(set)
	if toAdd > 0 {
		return min(fraction, toAdd-added)
	}
	return max(fraction, toAdd-added)
}

// fraction returns by how many pods a set grows with the Deployment (getReplicaSetFraction).
func (s *planning) fraction(set *appsv1.ReplicaSet) int32 {
	have := replicasOf(set)
	if s.replicas() == 0 {
		return -have
	}
	most, known := intAnnotation(set, maxReplicasAnnotation)
	if !known || most == 0 {
		if most = s.Deployment.Status.Replicas; most == 0 {
			return 0
		}
	}
	return int32(math.Round(float64(have)*float64(s.replicas()+s.maxSurge())/float64(most))) - have
}

// resize plans to set a set's size to n, and to note the size of the Deployment on it. It reports
// whether the set's size changes (scaleReplicaSet).
func (s *planning) resize(set *appsv1.ReplicaSet, n int32) bool {
	have := replicasOf(set)
	changed := set.DeepCopy()
	if !s.setSizeAnnotations(changed) && have == n {
		return false
	}
	changed.Spec.Replicas = &n
	event := ""
	if have != n {
		event = scaledMessage(set, have, n)
	}
	if i := s.scaleIndex(set); i >= 0 {
		s.Scale[i] = Scaling{Set: changed, Event: event}
	} else {
		s.Scale = append(s.Scale, Scaling{Set: changed, Event: event})
	}
	return have != n
}

// scaleIndex returns the index of a set among those that this step updates; -1 for none.
func (s *planning) scaleIndex(set *appsv1.ReplicaSet) int {
	return slices.IndexFunc(s.Scale, func(one Scaling) bool { return one.Set.UID == set.UID && one.Set.Name == set.Name })
}

// scaledMessage returns the message of the event ScalingReplicaSet.
func scaledMessage(set *appsv1.ReplicaSet, from, to int32) string {
	direction := "up"
	if to < from {
		direction = "down"
	}
	return fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, set.Name, from, to)
}
