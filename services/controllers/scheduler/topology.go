package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// spread is a pod's topology spread constraints, counted over all nodes.
type spread struct{ hard, soft []constraint }

// constraint is one of them: how many pods that it selects each domain has.
type constraint struct {
	key     string
	skew    int
	self    int // 1 when the pod counts itself
	least   int
	domains map[string]int
}

// readSpread counts for a pod that has constraints.
func readSpread(a *ask, world World) spread {
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
		c := a.count(want, selector, world)
		if want.WhenUnsatisfiable == corev1.DoNotSchedule {
			found.hard = append(found.hard, c)
		} else {
			found.soft = append(found.soft, c)
		}
	}
	return found
}

// count adds up one constraint over the nodes that it is about. An empty selector counts no pods,
// though it matches the pod itself (countPodsMatchSelector).
func (a *ask) count(want corev1.TopologySpreadConstraint, selector labels.Selector, world World) constraint {
	c := constraint{key: want.TopologyKey, skew: int(want.MaxSkew), domains: map[string]int{}}
	if selector.Matches(labels.Set(a.pod.Labels)) {
		c.self = 1
	}
	for _, node := range world.Nodes {
		value, has := node.Object.Labels[c.key]
		if !has || !a.counts(want, node) {
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
		if first || number < c.least {
			c.least, first = number, false
		}
	}
	if want.MinDomains != nil && len(c.domains) < int(*want.MinDomains) {
		c.least = 0
	}
	return c
}

// counts reports whether a node counts for a constraint, by its policies.
func (a *ask) counts(want corev1.TopologySpreadConstraint, node *NodeView) bool {
	if (want.NodeAffinityPolicy == nil || *want.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor) && a.selects && !a.matches(node.Object) {
		return false
	}
	honours := want.NodeTaintsPolicy != nil && *want.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	return !honours || !untolerated(a.pod.Spec.Tolerations, node.Object.Spec.Taints)
}

func (s spread) refuse(node *NodeView) Refusal {
	for _, c := range s.hard {
		value, has := node.Object.Labels[c.key]
		if !has {
			return Refusal{Reasons: []string{reasonSpreadLabel}, Final: true}
		}
		if c.domains[value]+c.self-c.least > c.skew {
			return Refusal{Reasons: []string{reasonSpread}}
		}
	}
	return Refusal{}
}
