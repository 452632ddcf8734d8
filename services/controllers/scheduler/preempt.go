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

// Budget is a disruption budget as far as it says whom to spare.
type Budget struct {
	Namespace string
	Selector  labels.Selector
	Allowed   int32
	// Disrupted names the pods that the apiserver has already taken from the budget.
	Disrupted map[string]metav1.Time
}

// covers reports whether preempting a pod counts against the budget. Unlike an eviction, preemption
// takes an empty selector to find no pod (FilterVictimsWithPDBViolation).
func (b Budget) covers(pod *corev1.Pod) bool {
	if _, counted := b.Disrupted[pod.Name]; counted || len(pod.Labels) == 0 || b.Namespace != pod.Namespace {
		return false
	}
	return !b.Selector.Empty() && b.Selector.Matches(labels.Set(pod.Labels))
}

// candidate is a node on which the pod would fit if the victims went.
type candidate struct {
	node    *NodeView
	victims []*corev1.Pod // the most important first
	broken  int           // budgets that would be
}

// preempt looks for the node on which the least has to go for the pod (DefaultPreemption). It
// is nil when there is none, and then verdicts count why not.
func preempt(ask *ask, world World, refusals map[string]Refusal) (best *candidate, verdicts map[string]int) {
	verdicts = map[string]int{}
	for i, node := range world.Nodes {
		if refusals[node.Name].Final {
			verdicts[reasonNotHelpful]++
			continue
		}
		found := victims(ask, world, i)
		if found == nil {
			verdicts[reasonNoVictims]++
			continue
		}
		if best == nil || found.before(best) {
			best = found
		}
	}
	return best, verdicts
}

// waiting reports whether pods that were to make room for this one are still going
// (PodEligibleToPreemptOthers).
func waiting(ask *ask, world World) bool {
	for _, node := range world.Nodes {
		if node.Name != ask.nominated {
			continue
		}
		for _, pod := range node.Pods {
			if (pod.DeletionTimestamp != nil || world.Going[pod.UID]) && Priority(pod) < ask.priority {
				return true
			}
		}
	}
	return false
}

// victims are those who would have to leave the i-th node: nil when the pod would not fit even
// then, or already does not need it (SelectVictimsOnNode).
func victims(ask *ask, world World, i int) *candidate {
	var lesser []*corev1.Pod
	for _, pod := range world.Nodes[i].Pods {
		if Priority(pod) < ask.priority {
			lesser = append(lesser, pod)
		}
	}
	if len(lesser) == 0 {
		return nil
	}
	slices.SortFunc(lesser, importance)
	node := world.Nodes[i].without(lesser)
	if !ask.fits(world, i, node) {
		return nil
	}
	found := &candidate{node: world.Nodes[i]}
	spared, broken := sort(lesser, world.Budgets)
	for n, group := range [][]*corev1.Pod{broken, spared} { // those under a budget have the first chance to stay
		for _, pod := range group {
			node.Take(pod)
			if ask.fits(world, i, node) {
				continue
			}
			node.Give(pod)
			found.victims = append(found.victims, pod)
			if n == 0 {
				found.broken++
			}
		}
	}
	slices.SortFunc(found.victims, importance)
	if len(found.victims) == 0 {
		return nil
	}
	return found
}

// fits reports whether the pod fits on the i-th node if that looks like node.
func (a *ask) fits(world World, i int, node *NodeView) bool {
	again := a
	if len(a.spread.hard) > 0 || len(a.terms.affinity)+len(a.terms.anti)+len(a.terms.unwanted) > 0 || len(a.volumes.taken) > 0 {
		world.Nodes = slices.Clone(world.Nodes)
		world.Nodes[i] = node
		again = newAsk(a.pod, world)
	}
	return again.impossible == "" && again.refuse(node).Reasons == nil
}

// sort divides pods into those that may go and those whose budget would be broken.
func sort(pods []*corev1.Pod, budgets map[types.UID]Budget) (spared, broken []*corev1.Pod) {
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

// importance orders pods by their priority, then by who began first.
func importance(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(Priority(b), Priority(a)), began(a).Compare(began(b).Time), cmp.Compare(a.UID, b.UID))
}

// before reports whether less goes with c than with other (pickOneNodeForPreemption).
func (c *candidate) before(other *candidate) bool {
	sum := func(of *candidate) (total int64) {
		for _, pod := range of.victims {
			total += int64(Priority(pod)) + 1<<31
		}
		return total
	}
	return cmp.Or(
		cmp.Compare(c.broken, other.broken),
		cmp.Compare(Priority(c.victims[0]), Priority(other.victims[0])),
		cmp.Compare(sum(c), sum(other)),
		cmp.Compare(len(c.victims), len(other.victims)),
		began(other.victims[0]).Compare(began(c.victims[0]).Time),
		cmp.Compare(c.node.Name, other.node.Name),
	) < 0
}

// without is a copy of the node that these pods have left.
func (v *NodeView) without(pods []*corev1.Pod) *NodeView {
	left := *v
	left.Used.Others = maps.Clone(v.Used.Others)
	left.Ports, left.Pods, left.Anti = maps.Clone(v.Ports), maps.Clone(v.Pods), maps.Clone(v.Anti)
	for _, pod := range pods {
		left.Give(pod)
	}
	return &left
}
