package why

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// usualFinalizer reports whether the cluster's own controllers remove a finalizer in every
// deletion.
func usualFinalizer(name string) bool {
	switch name {
	case metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, jobTracking, claimProtection, volumeProtection, "kubernetes":
		return true
	}
	return false
}

// Warnings returns the immediate warnings about a deletion after which the object will stay:
// finalizers, and a pod's node that is not ready or gone. node is nil if the API has none. force
// says that the object does not wait for its node.
func Warnings(obj kinds.Object, node *corev1.Node, force bool) []string {
	var warnings []string
	finalizers := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), usualFinalizer)
	if len(finalizers) > 0 {
		warnings = append(warnings, fmt.Sprintf("it stays until its finalizers are removed, forced or not: %s", strings.Join(finalizers, ", ")))
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return warnings
	}
	state := ""
	switch c := readyCondition(node); {
	case node == nil:
		state = "is not in the API any more"
	case c != nil && c.Status != corev1.ConditionTrue:
		state = fmt.Sprintf("is not ready (%s)", c.Reason)
	}
	switch {
	case state == "":
	case force:
		warnings = append(warnings, fmt.Sprintf("node %s %s: the object goes, and its containers may run on there; see podfall truth", pod.Spec.NodeName, state))
	default:
		warnings = append(warnings, fmt.Sprintf("node %s %s: the pod stays until the node is back; see podfall why pod/%s", pod.Spec.NodeName, state, pod.Name))
	}
	return warnings
}
