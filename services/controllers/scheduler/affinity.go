package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// domain is a value of a node label.
type domain struct{ key, value string }

// term is one term of pod affinity or anti-affinity.
type term struct {
	key        string
	selector   labels.Selector
	namespaces []string
	within     labels.Selector // of namespaces; nil for none
	weight     int32
}

// terms are what a pod asks of the pods around it, and they of it, counted over all nodes.
type terms struct {
	affinity, anti []term
	// together and apart count the pods in each domain that the terms select; unwanted are
	// the domains in which a pod is that does not want this one.
	together, apart, unwanted map[domain]int
	// first is true when no pod matches the affinity and the pod matches it itself.
	first bool
}

// readTerms counts for a pod.
func readTerms(pod *corev1.Pod, world World) terms {
	t := terms{unwanted: map[domain]int{}}
	if affinity := pod.Spec.Affinity; affinity != nil {
		if affinity.PodAffinity != nil {
			t.affinity = readAll(pod, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		t.anti = readAll(pod, antiTerms(pod))
	}
	for _, node := range world.Nodes {
		for _, other := range node.Anti {
			for _, unwilling := range readAll(other, antiTerms(other)) {
				if unwilling.selects(pod, world) {
					t.unwanted[domain{unwilling.key, node.Object.Labels[unwilling.key]}]++
				}
			}
		}
	}
	if len(t.affinity)+len(t.anti) == 0 {
		return t
	}
	t.together, t.apart = map[domain]int{}, map[domain]int{}
	for _, node := range world.Nodes {
		for _, other := range node.Pods {
			t.countIn(node, other, world)
		}
	}
	t.first = len(t.together) == 0 && !slices.ContainsFunc(t.affinity, func(one term) bool { return !one.selects(pod, world) })
	return t
}

// countIn adds one pod on a node. It counts for the affinity when it matches all terms, for
// the anti-affinity by each.
func (t *terms) countIn(node *NodeView, other *corev1.Pod, world World) {
	all := len(t.affinity) > 0 && !slices.ContainsFunc(t.affinity, func(one term) bool { return !one.selects(other, world) })
	for _, one := range t.affinity {
		if value, has := node.Object.Labels[one.key]; has && all {
			t.together[domain{one.key, value}]++
		}
	}
	for _, one := range t.anti {
		if value, has := node.Object.Labels[one.key]; has && one.selects(other, world) {
			t.apart[domain{one.key, value}]++
		}
	}
}

func antiTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func readAll(pod *corev1.Pod, all []corev1.PodAffinityTerm) []term {
	var found []term
	for _, one := range all {
		found = append(found, readTerm(pod, one, 0))
	}
	return found
}

// readTerm reads a term of pod's; without namespaces it means pod's own.
func readTerm(pod *corev1.Pod, one corev1.PodAffinityTerm, weight int32) term {
	t := term{key: one.TopologyKey, namespaces: one.Namespaces, weight: weight, selector: labels.Nothing()}
	if selector, err := metav1.LabelSelectorAsSelector(one.LabelSelector); err == nil {
		t.selector = selector
	}
	if one.NamespaceSelector != nil {
		if within, err := metav1.LabelSelectorAsSelector(one.NamespaceSelector); err == nil {
			t.within = within
		}
	} else if len(one.Namespaces) == 0 {
		t.namespaces = []string{pod.Namespace}
	}
	return t
}

func (t term) selects(pod *corev1.Pod, world World) bool {
	if !slices.Contains(t.namespaces, pod.Namespace) && (t.within == nil || !t.within.Matches(labels.Set(world.Namespaces[pod.Namespace]))) {
		return false
	}
	return t.selector.Matches(labels.Set(pod.Labels))
}

func (t terms) refuse(node *NodeView) Refusal {
	for _, one := range t.affinity {
		value, has := node.Object.Labels[one.key]
		if !has || t.together[domain{one.key, value}] == 0 && !t.first {
			return Refusal{Reasons: []string{reasonPodAffinity}, Final: true}
		}
	}
	for _, one := range t.anti {
		if value, has := node.Object.Labels[one.key]; has && t.apart[domain{one.key, value}] > 0 {
			return Refusal{Reasons: []string{reasonPodAnti}}
		}
	}
	for where := range t.unwanted {
		if value, has := node.Object.Labels[where.key]; has && value == where.value {
			return Refusal{Reasons: []string{reasonExistingAnti}}
		}
	}
	return Refusal{}
}
