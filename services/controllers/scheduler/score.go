package scheduler

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// choose is the best of the nodes that fit. What the pod prefers counts as upstream's plugins
// weigh it, each from 0 to 100; then what part of the node would be left free.
func choose(ask *ask, world World, fitting []*NodeView) *NodeView {
	if len(fitting) == 1 {
		return fitting[0]
	}
	wishes := make([]int64, len(fitting))
	for _, one := range preferences(ask, world, fitting) {
		for i, score := range one.normal() {
			wishes[i] += one.weight * score
		}
	}
	total := func(i int) int64 { return 10*wishes[i] + free(ask.need, fitting[i]) }
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

// preference is how one plugin scores each node that fits.
type preference struct {
	weight int64
	scores []int64
	// fewer is better than more.
	fewer bool
}

// normal is the scores between 0 and 100.
func (p preference) normal() []int64 {
	least, most := p.scores[0], p.scores[0]
	for _, score := range p.scores {
		least, most = min(least, score), max(most, score)
	}
	scaled := make([]int64, len(p.scores))
	for i, score := range p.scores {
		switch {
		case most == least:
		case p.fewer:
			scaled[i] = 100 * (most - score) / (most - least)
		default:
			scaled[i] = 100 * (score - least) / (most - least)
		}
	}
	return scaled
}

// preferences are those that the pod has; most have none.
func preferences(ask *ask, world World, fitting []*NodeView) []preference {
	var found []preference
	add := func(weight int64, fewer bool, score func(*NodeView) int64) {
		one := preference{weight: weight, fewer: fewer, scores: make([]int64, len(fitting))}
		for i, node := range fitting {
			one.scores[i] = score(node)
		}
		found = append(found, one)
	}
	for _, node := range fitting {
		if len(node.Object.Spec.Taints) > 0 {
			add(3, true, func(node *NodeView) int64 { return disliked(ask.pod, node) })
			break
		}
	}
	affinity := ask.pod.Spec.Affinity
	if affinity != nil && affinity.NodeAffinity != nil && len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
		if terms, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution); err == nil {
			add(2, false, func(node *NodeView) int64 { return terms.Score(node.Object) })
		}
	}
	if wished := wishes(ask.pod); len(wished) > 0 {
		domains := around(wished, world)
		add(2, false, func(node *NodeView) int64 { return domains.of(wished, node) })
	}
	for _, c := range ask.spread.soft {
		add(2, true, func(node *NodeView) int64 { return int64(c.domains[node.Object.Labels[c.key]]) })
	}
	return found
}

// disliked counts the node's taints that the pod had rather not have.
func disliked(pod *corev1.Pod, node *NodeView) int64 {
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

// wishes are the terms of pod affinity, and with negative weights those of anti-affinity, that
// the pod prefers.
func wishes(pod *corev1.Pod) []term {
	var found []term
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	if affinity.PodAffinity != nil {
		for _, one := range affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			found = append(found, readTerm(pod, one.PodAffinityTerm, one.Weight))
		}
	}
	if affinity.PodAntiAffinity != nil {
		for _, one := range affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			found = append(found, readTerm(pod, one.PodAffinityTerm, -one.Weight))
		}
	}
	return found
}

// sums are weights of the pods in each domain.
type sums map[domain]int64

func around(wished []term, world World) sums {
	found := sums{}
	for _, node := range world.Nodes {
		for _, one := range wished {
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

func (s sums) of(wished []term, node *NodeView) int64 {
	var sum int64
	seen := map[string]bool{}
	for _, one := range wished {
		if value, has := node.Object.Labels[one.key]; has && !seen[one.key] {
			seen[one.key] = true
			sum += s[domain{one.key, value}]
		}
	}
	return sum
}

// free is the mean part of CPU and memory, in per mille, that the node would have left with
// the pod on it.
func free(need Resources, node *NodeView) int64 {
	return (left(node.Allocatable.MilliCPU, node.Used.MilliCPU+need.MilliCPU) +
		left(node.Allocatable.Memory, node.Used.Memory+need.Memory)) / 2
}

func left(have, used int64) int64 {
	if have <= 0 || used > have {
		return 0
	}
	return (have - used) * 1000 / have
}
