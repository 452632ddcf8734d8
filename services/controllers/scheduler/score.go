package scheduler

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// chooseBest returns the best feasible node. The pod's preferences count with upstream's plugin
// weights, each score from 0 to 100. Then counts the part of the node that would be left free.
func chooseBest(info *podInfo, world World, fitting []*NodeView) *NodeView {
	if len(fitting) == 1 {
		return fitting[0]
	}
	preferenceScores := make([]int64, len(fitting))
	for _, one := range scorePreferences(info, world, fitting) {
		for i, score := range one.normalize() {
			preferenceScores[i] += one.weight * score
		}
	}
	total := func(i int) int64 { return 10*preferenceScores[i] + scoreFreeCapacity(info.requests, fitting[i]) }
	best := 0
	for i := 1; i < len(fitting); i++ {
		if cmp.Or(
			cmp.Compare(total(best), total(i)),
			cmp.Compare(fitting[i].Used.Pods, fitting[best].Used.Pods),
			cmp.Compare(fitting[i].Name, fitting[best].Name),
		) < 0 {
			best = i
		}
	}
	return fitting[best]
}

// preference is the score that one plugin gives each feasible node.
type preference struct {
	weight int64
	scores []int64
	// lowerIsBetter reverses the order of the scores.
	lowerIsBetter bool
}

// normalize scales the scores to 0 to 100.
func (p preference) normalize() []int64 {
	least, most := p.scores[0], p.scores[0]
	for _, score := range p.scores {
		least, most = min(least, score), max(most, score)
	}
	scaled := make([]int64, len(p.scores))
	for i, score := range p.scores {
		switch {
		case most == least:
		case p.lowerIsBetter:
			scaled[i] = 100 * (most - score) / (most - least)
		default:
			scaled[i] = 100 * (score - least) / (most - least)
		}
	}
	return scaled
}

// scorePreferences scores the nodes by each preference that the pod has; most pods have none.
func scorePreferences(info *podInfo, world World, fitting []*NodeView) []preference {
	var found []preference
	add := func(weight int64, fewer bool, score func(*NodeView) int64) {
		one := preference{weight: weight, lowerIsBetter: fewer, scores: make([]int64, len(fitting))}
		for i, node := range fitting {
			one.scores[i] = score(node)
		}
		found = append(found, one)
	}
	for _, node := range fitting {
		if len(node.Object.Spec.Taints) > 0 {
			add(3, true, func(node *NodeView) int64 { return countIntolerableTaints(info.pod, node) })
			break
		}
	}
	affinity := info.pod.Spec.Affinity
	if affinity != nil && affinity.NodeAffinity != nil && len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		if terms, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution); err == nil {
			add(2, false, func(node *NodeView) int64 { return terms.Score(node.Object) })
		}
	}
	if preferred := preferredTerms(info.pod); len(preferred) > 0 {
		domains := sumDomainWeights(preferred, world)
		add(2, false, func(node *NodeView) int64 { return domains.scoreNode(preferred, node) })
	}
	for _, c := range info.spread.soft {
		add(2, true, func(node *NodeView) int64 { return int64(c.domains[node.Object.Labels[c.key]]) })
	}
	return found
}

// countIntolerableTaints counts the node's PreferNoSchedule taints that the pod does not tolerate.
func countIntolerableTaints(pod *corev1.Pod, node *NodeView) int64 {
	var count int64
	for i := range node.Object.Spec.Taints {
		taint := &node.Object.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule &&
			!corev1helpers.TolerationsTolerateTaint(noLogger(), pod.Spec.Tolerations, taint, true) {
			count++
		}
	}
	return count
}

// preferredTerms returns the pod's preferred affinity terms, and with negative weights its
// preferred anti-affinity terms.
func preferredTerms(pod *corev1.Pod) []term {
	var found []term
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	if affinity.PodAffinity != nil {
		for _, one := range affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			found = append(found, parseTerm(pod, one.PodAffinityTerm, one.Weight))
		}
	}
	if affinity.PodAntiAffinity != nil {
		for _, one := range affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			found = append(found, parseTerm(pod, one.PodAffinityTerm, -one.Weight))
		}
	}
	return found
}

// domainWeights are the summed weights of the pods in each domain.
type domainWeights map[domain]int64

func sumDomainWeights(preferred []term, world World) domainWeights {
	found := domainWeights{}
	for _, node := range world.Nodes {
		for _, one := range preferred {
			value, has := node.Object.Labels[one.key]
			if !has {
				continue
			}
			for _, other := range node.Pods {
				if one.selects(other, world) {
					found[domain{one.key, value}] += int64(one.weight)
				}
			}
		}
	}
	return found
}

func (s domainWeights) scoreNode(preferred []term, node *NodeView) int64 {
	var sum int64
	seen := map[string]bool{}
	for _, one := range preferred {
		if value, has := node.Object.Labels[one.key]; has && !seen[one.key] {
			seen[one.key] = true
			sum += s[domain{one.key, value}]
		}
	}
	return sum
}

// scoreFreeCapacity is the mean fraction of CPU and memory, in per mille, that would be left on the
// node with the pod on it.
func scoreFreeCapacity(need Resources, node *NodeView) int64 {
	return (freePerMille(node.Allocatable.MilliCPU, node.Used.MilliCPU+need.MilliCPU) +
		freePerMille(node.Allocatable.Memory, node.Used.Memory+need.Memory)) / 2
}

func freePerMille(have, used int64) int64 {
	if have <= 0 || used > have {
		return 0
	}
	return (have - used) * 1000 / have
}
