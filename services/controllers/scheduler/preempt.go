package scheduler

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Budget is what preemption needs of a disruption budget.
type Budget struct {
	Namespace string
	Selector  labels.Selector
	Allowed   int32
	// Disrupted names the pods that the apiserver has already counted against the budget.
	Disrupted map[string]metav1.Time
}

// covers reports whether preempting a pod counts against the budget. Unlike an eviction, preemption
// takes an empty selector to select no pod (FilterVictimsWithPDBViolation).
func (b Budget) covers(pod *corev1.Pod) bool {
	if _, counted := b.Disrupted[pod.Name]; counted || len(pod.Labels) == 0 || b.Namespace != pod.Namespace {
		return false
	}
	return !b.Selector.Empty() && b.Selector.Matches(labels.Set(pod.Labels))
}

// candidate is a node that fits the pod once the victims are gone.
type candidate struct {
	node       *NodeView
	victims    []*corev1.Pod // the most important first
	violations int           // budget violations
}

// findCandidate returns the node on which preemption costs the least (DefaultPreemption). If there
// is none it returns nil, and verdicts count the reasons.
func findCandidate(info *podInfo, world World, refusals map[string]Refusal) (best *candidate, verdicts map[string]int) {
	verdicts = map[string]int{}
	for i, node := range world.Nodes {
		if refusals[node.Name].Unresolvable {
			verdicts[reasonNotHelpful]++
			continue
		}
		found := selectVictims(info, world, i)
		if found == nil {
			verdicts[reasonNoVictims]++
			continue
		}
		if best == nil || found.isBetterThan(best) {
			best = found
		}
	}
	return best, verdicts
}

// hasTerminatingVictims reports whether victims on the nominated node are still terminating
// (PodEligibleToPreemptOthers).
func hasTerminatingVictims(info *podInfo, world World) bool {
	for _, node := range world.Nodes {
		if node.Name != info.nominatedNode {
			continue
		}
		for _, pod := range node.Pods {
			if (pod.DeletionTimestamp != nil || world.Preempted[pod.UID]) && Priority(pod) < info.priority {
				return true
			}
		}
	}
	return false
}

// selectVictims returns the pods that would have to leave the i-th node. It is nil if the pod would
// not fit even then, or needs no victims (SelectVictimsOnNode).
func selectVictims(info *podInfo, world World, i int) *candidate {
	var lesser []*corev1.Pod
	for _, pod := range world.Nodes[i].Pods {
		if Priority(pod) < info.priority {
			lesser = append(lesser, pod)
		}
	}
	if len(lesser) == 0 {
		return nil
	}
	slices.SortFunc(lesser, compareImportance)
	node := world.Nodes[i].withoutPods(lesser)
	if !info.fitsOn(world, i, node) {
		return nil
	}
	found := &candidate{node: world.Nodes[i]}
	spared, broken := splitByBudget(lesser, world.Budgets)
	for n, group := range [][]*corev1.Pod{broken, spared} { // those under a budget have the first chance to stay
		for _, pod := range group {
			node.AddPod(pod)
			if info.fitsOn(world, i, node) {
				continue
			}
			node.RemovePod(pod)
			found.victims = append(found.victims, pod)
			if n == 0 {
				found.violations++
			}
		}
	}
	slices.SortFunc(found.victims, compareImportance)
	if len(found.victims) == 0 {
		return nil
	}
	return found
}

// fitsOn reports whether the pod fits on the i-th node if that looks like node.
func (info *podInfo) fitsOn(world World, i int, node *NodeView) bool {
	recomputed := info
	if len(info.spread.hard) > 0 || len(info.terms.affinity)+len(info.terms.anti)+len(info.terms.existingAnti) > 0 || len(info.volumes.holderNodes) > 0 {
		world.Nodes = slices.Clone(world.Nodes)
		world.Nodes[i] = node
		recomputed = newPodInfo(info.pod, world)
	}
	return recomputed.unresolvable == "" && recomputed.checkNode(node).Reasons == nil
}

// splitByBudget separates pods whose preemption would violate a budget from those that may be
// preempted.
func splitByBudget(pods []*corev1.Pod, budgets map[types.UID]Budget) (spared, broken []*corev1.Pod) {
	allowed := make(map[types.UID]int32, len(budgets))
	for uid, budget := range budgets {
		allowed[uid] = budget.Allowed
	}
	for _, pod := range pods {
		breaks := false
		for uid, budget := range budgets {
			if budget.covers(pod) {
				if allowed[uid]--; allowed[uid] < 0 {
					breaks = true
				}
			}
		}
		if breaks {
			broken = append(broken, pod)
		} else {
			spared = append(spared, pod)
		}
	}
	return spared, broken
}

// compareImportance orders pods by priority, then by start time.
func compareImportance(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(Priority(b), Priority(a)), startTime(a).Compare(startTime(b).Time), cmp.Compare(a.UID, b.UID))
}

// isBetterThan reports whether preempting c's victims costs less than preempting other's
// (pickOneNodeForPreemption).
func (c *candidate) isBetterThan(other *candidate) bool {
	sum := func(of *candidate) (total int64) {
		for _, pod := range of.victims {
			total += int64(Priority(pod)) + 1<<31
		}
		return total
	}
	return cmp.Or(
		cmp.Compare(c.violations, other.violations),
		cmp.Compare(Priority(c.victims[0]), Priority(other.victims[0])),
		cmp.Compare(sum(c), sum(other)),
		cmp.Compare(len(c.victims), len(other.victims)),
		startTime(other.victims[0]).Compare(startTime(c.victims[0]).Time),
		cmp.Compare(c.node.Name, other.node.Name),
	) < 0
}

// withoutPods returns a copy of the node without these pods.
func (v *NodeView) withoutPods(pods []*corev1.Pod) *NodeView {
	left := *v
	left.Used.Others = maps.Clone(v.Used.Others)
	left.Ports, left.Pods, left.AntiAffinityPods = maps.Clone(v.Ports), maps.Clone(v.Pods), maps.Clone(v.AntiAffinityPods)
	for _, pod := range pods {
		left.RemovePod(pod)
	}
	return &left
}
