package deployment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// scaled reports whether the Deployment was scaled since its sets were (isScalingEvent).
func (s *step) scaled() bool {
	for _, set := range active(s.all()) {
		if desired, known := number(set, desiredAnnotation); known && desired != s.replicas() {
			return true
		}
	}
	return false
}

// scale spreads the number of pods over the sets (scale): all to the one that is left, or,
// in the middle of a rollout, to each in proportion.
func (s *step) scale() {
	if one := s.activeOrLatest(); one != nil {
		s.resize(one, s.replicas())
		return
	}
	if s.saturated() {
		for _, set := range active(s.old) {
			s.resize(set, 0)
		}
		return
	}
	if s.Deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return
	}
	sets := active(s.all())
	var allowed int32
	if s.replicas() > 0 {
		allowed = s.replicas() + s.surge()
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
		part := s.part(set, toAdd, added)
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

// activeOrLatest is the only set that asks for pods, or the newest when none does; nil when
// several do (FindActiveOrLatest).
func (s *step) activeOrLatest() *appsv1.ReplicaSet {
	switch running := active(s.all()); {
	case len(running) == 1:
		return running[0]
	case len(running) > 1:
		return nil
	case s.fresh != nil:
		return s.fresh
	case len(s.old) > 0:
		return s.old[len(s.old)-1]
	}
	return nil
}

// saturated reports whether the set of the template has all pods that are asked for, and
// they are available.
func (s *step) saturated() bool {
	if s.fresh == nil {
		return false
	}
	desired, known := number(s.fresh, desiredAnnotation)
	return known && desired == s.replicas() && replicasOf(s.fresh) == s.replicas() && s.fresh.Status.AvailableReplicas == s.replicas()
}

// part is how many of the pods to add, or to take away, are a set's (GetReplicaSetProportion).
func (s *step) part(set *appsv1.ReplicaSet, toAdd, added int32) int32 {
	if replicasOf(set) == 0 || toAdd == 0 || toAdd == added {
		return 0
	}
	fraction := s.fraction(set)
	if toAdd > 0 {
		return min(fraction, toAdd-added)
	}
	return max(fraction, toAdd-added)
}

// fraction is by how much a set grows when the Deployment does (getReplicaSetFraction).
func (s *step) fraction(set *appsv1.ReplicaSet) int32 {
	have := replicasOf(set)
	if s.replicas() == 0 {
		return -have
	}
	most, known := number(set, mostAnnotation)
	if !known || most == 0 {
		if most = s.Deployment.Status.Replicas; most == 0 {
			return 0
		}
	}
	return int32(math.Round(float64(have)*float64(s.replicas()+s.surge())/float64(most))) - have
}

// resize plans to have a set ask for n pods, and to note by what it was scaled. It reports
// whether the number changes (scaleReplicaSet).
func (s *step) resize(set *appsv1.ReplicaSet, n int32) bool {
	have := replicasOf(set)
	changed := set.DeepCopy()
	if !s.size(changed) && have == n {
		return false
	}
	changed.Spec.Replicas = &n
	event := ""
	if have != n {
		event = scaledMessage(set, have, n)
	}
	if i := s.scaling(set); i >= 0 {
		s.Scale[i] = Scaling{Set: changed, Event: event}
	} else {
		s.Scale = append(s.Scale, Scaling{Set: changed, Event: event})
	}
	return have != n
}

// scaling is the place of a set among those that this step changes; -1 for none.
func (s *step) scaling(set *appsv1.ReplicaSet) int {
	return slices.IndexFunc(s.Scale, func(one Scaling) bool { return one.Set.UID == set.UID && one.Set.Name == set.Name })
}

// scaledMessage is the event ScalingReplicaSet.
func scaledMessage(set *appsv1.ReplicaSet, from, to int32) string {
	direction := "up"
	if to < from {
		direction = "down"
	}
	return fmt.Sprintf("Scaled %s replica set %s from %d to %d", direction, set.Name, from, to)
}
