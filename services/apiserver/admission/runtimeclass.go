package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/podfall/podfall/proto/kinds"
)

var (
	errOverheadDiffers = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	errOverheadAlone   = errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
)

// applyRuntimeClass gives a new pod the overhead, the node selector and the tolerations of its class
// (upstream's admission plugin RuntimeClass).
func applyRuntimeClass(pod *corev1.Pod, classes []*nodev1.RuntimeClass) error {
	class, err := runtimeClassOf(pod, classes)
	if err != nil {
		return err
	}
	switch {
	case class != nil && class.Overhead != nil:
		if len(pod.Spec.Overhead) > 0 && !kinds.Equal(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return errOverheadDiffers
		}
		pod.Spec.Overhead = maps.Clone(class.Overhead.PodFixed)
	case pod.Spec.Overhead != nil:
		return errOverheadAlone
	}
	if class == nil || class.Scheduling == nil {
		return nil
	}
	selector := maps.Clone(pod.Spec.NodeSelector)
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		value := class.Scheduling.NodeSelector[key]
		if own, has := selector[key]; has && own != value {
			return fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own)
		}
		if selector == nil {
			selector = map[string]string{}
		}
		selector[key] = value
	}
	pod.Spec.NodeSelector = selector
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, class.Scheduling.Tolerations)
	return nil
}

// runtimeClassOf returns the class that the pod names; nil when it names none.
func runtimeClassOf(pod *corev1.Pod, classes []*nodev1.RuntimeClass) (*nodev1.RuntimeClass, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil {
		return nil, nil //nolint:nilnil // none is no mistake
	}
	for _, class := range classes {
		if class.Name == *name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("pod rejected: RuntimeClass %q not found", *name)
}

// mergeTolerations returns both lists without what others of them cover. Of equal tolerations the first
// stays (MergeTolerations).
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var merged []corev1.Toleration
	for i, t := range all {
		covered := slices.ContainsFunc(merged, func(other corev1.Toleration) bool { return covers(other, t) }) ||
			slices.ContainsFunc(all[i+1:], func(other corev1.Toleration) bool {
				return !kinds.Equal(t, other) && covers(other, t)
			})
		if !covered {
			merged = append(merged, t)
		}
	}
	return merged
}

// covers reports whether wide tolerates all that t does (isSuperset).
func covers(wide, t corev1.Toleration) bool {
	switch {
	case kinds.Equal(t, wide):
		return true
	case t.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists):
		return false
	case t.Effect != wide.Effect && wide.Effect != "":
		return false
	}
	if limit := wide.TolerationSeconds; wide.Effect == corev1.TaintEffectNoExecute && limit != nil {
		if t.TolerationSeconds == nil || *t.TolerationSeconds > *limit {
			return false
		}
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // only covers what is equal
	}
	return false
}
