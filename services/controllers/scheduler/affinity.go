package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// domain is one value of a node label: a topology domain.
type domain struct{ key, value string }

// term is one term of pod affinity or anti-affinity.
type term struct {
	key               string
	selector          labels.Selector
	namespaces        []string
	namespaceSelector labels.Selector // selects namespaces by their labels; nil for none
	weight            int32
}

// terms are the pod's affinity and anti-affinity terms with their matches on all nodes, and the
// anti-affinity of existing pods against it.
type terms struct {
	affinity, anti []term
	// affinityCounts and antiCounts count the pods in each domain that the terms select.
	// existingAnti are the domains with a pod whose anti-affinity selects this pod.
	affinityCounts, antiCounts, existingAnti map[domain]int
	// isFirst is true if no pod matches the affinity terms and the pod matches them itself.
	isFirst bool
}

// countTerms reads a pod's terms and counts the pods on all nodes that they select.
func countTerms(pod *corev1.Pod, world World) terms {
	t := terms{existingAnti: map[domain]int{}}
	if affinity := pod.Spec.Affinity; affinity != nil {
		if affinity.PodAffinity != nil {
			t.affinity = parseTerms(pod, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		t.anti = parseTerms(pod, antiTerms(pod))
	}
	for _, node := range world.Nodes {
		for _, other := range node.AntiAffinityPods {
			for _, existing := range parseTerms(other, antiTerms(other)) {
				if existing.selects(pod, world) {
					t.existingAnti[domain{existing.key, node.Object.Labels[existing.key]}]++
				}
			}
		}
	}
	if len(t.affinity)+len(t.anti) == 0 {
		return t
	}
	t.affinityCounts, t.antiCounts = map[domain]int{}, map[domain]int{}
	for _, node := range world.Nodes {
		for _, other := range node.Pods {
			t.addPod(node, other, world)
		}
	}
	t.isFirst = len(t.affinityCounts) == 0 && !slices.ContainsFunc(t.affinity, func(one term) bool { return !one.selects(pod, world) })
	return t
}

// addPod counts one pod on a node. The pod counts for affinity if it matches all affinity terms,
// and for each anti-affinity term that it matches.
func (t *terms) addPod(node *NodeView, other *corev1.Pod, world World) {
	all := len(t.affinity) > 0 && !slices.ContainsFunc(t.affinity, func(one term) bool { return !one.selects(other, world) })
	for _, one := range t.affinity {
		if value, has := node.Object.Labels[one.key]; has && all {
			t.affinityCounts[domain{one.key, value}]++
		}
	}
	for _, one := range t.anti {
		if value, has := node.Object.Labels[one.key]; has && one.selects(other, world) {
			t.antiCounts[domain{one.key, value}]++
		}
	}
}

func antiTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func parseTerms(pod *corev1.Pod, all []corev1.PodAffinityTerm) []term {
	var found []term
	for _, one := range all {
		found = append(found, parseTerm(pod, one, 0))
	}
	return found
}

// parseTerm reads a term of the pod. A term without namespaces means the pod's namespace.
func parseTerm(pod *corev1.Pod, podTerm corev1.PodAffinityTerm, weight int32) term {
	t := term{key: podTerm.TopologyKey, namespaces: podTerm.Namespaces, weight: weight, selector: labels.Nothing()}
	if selector, err := metav1.LabelSelectorAsSelector(podTerm.LabelSelector); err == nil {
		t.selector = selector
	}
	if podTerm.NamespaceSelector != nil {
		if namespaceSelector, err := metav1.LabelSelectorAsSelector(podTerm.NamespaceSelector); err == nil {
			t.namespaceSelector = namespaceSelector
		}
	} else if len(podTerm.Namespaces) == 0 {
		t.namespaces = []string{pod.Namespace}
	}
	return t
}

func (t term) selects(pod *corev1.Pod, world World) bool {
	if !slices.Contains(t.namespaces, pod.Namespace) && (t.namespaceSelector == nil || !t.namespaceSelector.Matches(labels.Set(world.Namespaces[pod.Namespace]))) {
		return false
	}
	return t.selector.Matches(labels.Set(pod.Labels))
}

func (t terms) checkNode(node *NodeView) Refusal {
	for _, one := range t.affinity {
		value, has := node.Object.Labels[one.key]
		if !has || t.affinityCounts[domain{one.key, value}] == 0 && !t.isFirst {
			return Refusal{Reasons: []string{reasonPodAffinity}, Unresolvable: true}
		}
	}
	for _, one := range t.anti {
		if value, has := node.Object.Labels[one.key]; has && t.antiCounts[domain{one.key, value}] > 0 {
			return Refusal{Reasons: []string{reasonPodAnti}}
		}
	}
	for where := range t.existingAnti {
		if value, has := node.Object.Labels[where.key]; has && value == where.value {
			return Refusal{Reasons: []string{reasonExistingAnti}}
		}
	}
	return Refusal{}
}
