package tainteviction

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// matchTolerations returns the first toleration that matches each taint. all is false if a taint is
// not tolerated.
func matchTolerations(tolerations []corev1.Toleration, taints []corev1.Taint) (used []corev1.Toleration, all bool) {
	for i := range taints {
		matched := false
		for j := range tolerations {
			if corev1helpers.TolerationsTolerateTaint(logr.Discard(), tolerations[j:j+1], &taints[i], true) {
				used, matched = append(used, tolerations[j]), true
				break
			}
		}
		if !matched {
			return nil, false
		}
	}
	return used, true
}
