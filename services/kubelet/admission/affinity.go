package admission

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// matchesNode reports whether the pod's node selector and its required node affinity match
// the host.
func matchesNode(pod *corev1.Pod, host Host) bool {
	for key, value := range pod.Spec.NodeSelector {
		if has, is := host.Labels[key]; !is || has != value {
			return false
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(term corev1.NodeSelectorTerm) bool { return matchesTerm(term, host) })
}

func matchesTerm(term corev1.NodeSelectorTerm, host Host) bool {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return false // an empty term matches nothing
	}
	for _, want := range term.MatchExpressions {
		value, has := host.Labels[want.Key]
		if !matchesRequirement(want, value, has) {
			return false
		}
	}
	for _, want := range term.MatchFields {
		if want.Key != "metadata.name" || !matchesRequirement(want, host.Name, true) {
			return false
		}
	}
	return true
}

func matchesRequirement(want corev1.NodeSelectorRequirement, value string, has bool) bool {
	switch want.Operator {
	case corev1.NodeSelectorOpIn:
		return has && slices.Contains(want.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !has || !slices.Contains(want.Values, value)
	case corev1.NodeSelectorOpExists:
		return has
	case corev1.NodeSelectorOpDoesNotExist:
		return !has
	case corev1.NodeSelectorOpGt:
		is, than, numbers := parseBoth(want, value)
		return has && numbers && is > than
	case corev1.NodeSelectorOpLt:
		is, than, numbers := parseBoth(want, value)
		return has && numbers && is < than
	}
	return false
}

func parseBoth(want corev1.NodeSelectorRequirement, value string) (is, than int64, numbers bool) {
	if len(want.Values) != 1 {
		return 0, 0, false
	}
	is, err := strconv.ParseInt(value, 10, 64)
	than, wrong := strconv.ParseInt(want.Values[0], 10, 64)
	return is, than, err == nil && wrong == nil
}
