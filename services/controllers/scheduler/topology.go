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
func countSpread(a *podInfo, world World) spread {
	var found spread
	for _, want := range a.pod.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(want.LabelSelector)
		if err != nil {
			continue
		}
		for _, key := range want.MatchLabelKeys {
			if value, has := a.pod.Labels[key]; has {
				if only, err := labels.NewRequirement(key, "=", []string{value}); err == nil {
					selector = selector.Add(*only)
				}
			}
		}
		c := a.countConstraint(want, selector, world)
		if want.WhenUnsatisfiable == corev1.DoNotSchedule {
			found.hard = append(found.hard, c)
		} else {
			found.soft = append(found.soft, c)
		}
	}
	return found
}

// countConstraint counts one constraint over the eligible nodes. An empty selector counts no pods,
// though it matches the pod itself (countPodsMatchSelector).
func (a *podInfo) countConstraint(want corev1.TopologySpreadConstraint, selector labels.Selector, world World) constraint {
	c := constraint{key: want.TopologyKey, maxSkew: int(want.MaxSkew), domains: map[string]int{}}
	if selector.Matches(labels.Set(a.pod.Labels)) {
		c.selfMatch = 1
	}
	for _, node := range world.Nodes {
		value, has := node.Object.Labels[c.key]
		if !has || !a.isEligibleNode(want, node) {
			continue
		}
		number := 0
		for _, pod := range node.Pods {
			if !selector.Empty() && pod.Namespace == a.pod.Namespace && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
				number++
			}
		}
		c.domains[value] += number
	}
	first := true
	for _, number := range c.domains {
		if first || number < c.minMatch {
			c.minMatch, first = number, false
		}
	}
	if want.MinDomains != nil && len(c.domains) < int(*want.MinDomains) {
		c.minMatch = 0
	}
	return c
}

// isEligibleNode reports whether a node counts for a constraint, by the constraint's node inclusion
// policies.
func (a *podInfo) isEligibleNode(want corev1.TopologySpreadConstraint, node *NodeView) bool {
	if (want.NodeAffinityPolicy == nil || *want.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) && a.hasAffinity && !a.matchesAffinity(node.Object) {
		return false
	}
	honours := want.NodeTaintsPolicy != nil && *want.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	return !honours || !hasUntoleratedTaint(a.pod.Spec.Tolerations, node.Object.Spec.Taints)
}

func (s spread) checkNode(node *NodeView) Refusal {
	for _, c := range s.hard {
		value, has := node.Object.Labels[c.key]
		if !has {
			return Refusal{Reasons: []string{reasonSpreadLabel}, Unresolvable: true}
		}
		if c.domains[value]+c.selfMatch-c.minMatch > c.maxSkew {
			return Refusal{Reasons: []string{reasonSpread}}
		}
	}
	return Refusal{}
}
