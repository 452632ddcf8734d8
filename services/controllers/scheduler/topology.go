package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// spread is a pod's topology spread constraints, counted over all nodes.
type spread struct{ hard, soft []constraint }

// constraint is one topology spread constraint with the number of selected pods in each domain.
type constraint struct {
	key       string
	maxSkew   int
	selfMatch int // 1 if the pod counts itself
	// lowest count of a domain
	minMatch int
	domains  map[string]int
}

// countSpread counts for a pod that has constraints.
func countSpread(info *podInfo, world World) spread {
	var found spread
	for _, wanted := range info.pod.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(wanted.LabelSelector)
		if err != nil {
			continue
		}
		for _, key := range wanted.MatchLabelKeys {
			if value, has := info.pod.Labels[key]; has {
				if only, err := labels.NewRequirement(key, "=", []string{value}); err == nil {
					selector = selector.Add(*only)
				}
			}
		}
		counted := info.countConstraint(wanted, selector, world)
		if wanted.WhenUnsatisfiable == corev1.DoNotSchedule {
			found.hard = append(found.hard, counted)
		} else {
			found.soft = append(found.soft, counted)
		}
	}
	return found
}

// countConstraint counts one constraint over the eligible nodes. An empty selector counts no pods,
// though it matches the pod itself (countPodsMatchSelector).
func (info *podInfo) countConstraint(wanted corev1.TopologySpreadConstraint, selector labels.Selector, world World) constraint {
	counted := constraint{key: wanted.TopologyKey, maxSkew: int(wanted.MaxSkew), domains: map[string]int{}}
	if selector.Matches(labels.Set(info.pod.Labels)) {
		counted.selfMatch = 1
	}
	for _, node := range world.Nodes {
		value, has := node.Object.Labels[counted.key]
		if !has || !info.isEligibleNode(wanted, node) {
			continue
		}
		number := 0
		for _, pod := range node.Pods {
			if !selector.Empty() && pod.Namespace == info.pod.Namespace && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
				number++
			}
		}
		counted.domains[value] += number
	}
	first := true
	for _, number := range counted.domains {
		if first || number < counted.minMatch {
			counted.minMatch, first = number, false
		}
	}
	if wanted.MinDomains != nil && len(counted.domains) < int(*wanted.MinDomains) {
		counted.minMatch = 0
	}
	return counted
}

// isEligibleNode reports whether a node counts for a constraint, by the constraint's node inclusion
// policies.
func (info *podInfo) isEligibleNode(wanted corev1.TopologySpreadConstraint, node *NodeView) bool {
	if (wanted.NodeAffinityPolicy == nil || *wanted.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) && info.hasAffinity && !info.matchesAffinity(node.Object) {
		return false
	}
	honours := wanted.NodeTaintsPolicy != nil && *wanted.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	return !honours || !hasUntoleratedTaint(info.pod.Spec.Tolerations, node.Object.Spec.Taints)
}

func (s spread) checkNode(node *NodeView) Refusal {
	for _, counted := range s.hard {
		value, has := node.Object.Labels[counted.key]
		if !has {
			return Refusal{Reasons: []string{reasonSpreadLabel}, Unresolvable: true}
		}
		if counted.domains[value]+counted.selfMatch-counted.minMatch > counted.maxSkew {
			return Refusal{Reasons: []string{reasonSpread}}
		}
	}
	return Refusal{}
}
