package registry

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// validatePodUpdate returns why the spec of pod may not replace that of old (API-70). Fields that
// may change are checked one by one. Then they are restored from the old spec, and any remaining
// difference is refused.
func validatePodUpdate(pod, old *corev1.Pod) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	f.checkAnnotationUpdate(pod.Annotations, old.Annotations, field.NewPath("metadata", "annotations"))
	for _, list := range []struct {
		name     string
		now, was []corev1.Container
	}{
		{"containers", pod.Spec.Containers, old.Spec.Containers},
		{"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers},
	} {
		if len(list.now) != len(list.was) {
			f.forbidden(at.Child(list.name), "pod updates may not add or remove containers")
			return f.errs
		}
		for i := range list.now {
			f.checkNotEmpty(at.Child(list.name).Index(i).Child("image"), list.now[i].Image)
			f.checkImageSpaces(at.Child(list.name).Index(i), list.now[i].Image)
		}
	}
	if !f.checkDeadlineUpdate(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds")) {
		return f.errs
	}
	f.checkTolerationUpdate(pod.Spec.Tolerations, old.Spec.Tolerations, at.Child("tolerations"))
	f.checkGateUpdate(pod.Spec.SchedulingGates, old.Spec.SchedulingGates, at.Child("schedulingGates"))
	if kinds.Equal(pod.Spec, old.Spec) {
		return f.errs
	}
	rest := restoreChangeable(&pod.Spec, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		f.checkGatedUpdate(rest, &old.Spec, at)
	}
	if !kinds.Equal(*rest, old.Spec) {
		f.forbidden(at, fmt.Sprintf("pod updates may not change fields other than %s\n%v",
			strings.Join(changeableFields(), ","), diff.Diff(old.Spec, *rest)))
	}
	return f.errs
}

// changeableFields is upstream's list of what a Pod update may change. It has never mentioned the
// scheduling gates.
func changeableFields() []string {
	return []string{
		"`spec.containers[*].image`",
		"`spec.initContainers[*].image`",
		"`spec.activeDeadlineSeconds`",
		"`spec.tolerations` (only additions to existing tolerations)",
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
	}
}

// restoreChangeable returns spec with every changeable field restored from old. Both have the same
// number of containers.
func restoreChangeable(spec, old *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.SchedulingGates = old.SchedulingGates
	rest.Tolerations = old.Tolerations
	now, was := rest.TerminationGracePeriodSeconds, old.TerminationGracePeriodSeconds
	if was != nil && *was < 0 && now != nil && *now == 1 {
		rest.TerminationGracePeriodSeconds = was
	}
	return rest
}

// checkAnnotationUpdate refuses a changed annotation of a static Pod's mirror.
func (f *findings) checkAnnotationUpdate(now, was map[string]string, at *field.Path) {
	value, marked := now[corev1.MirrorPodAnnotationKey]
	before, wasMarked := was[corev1.MirrorPodAnnotationKey]
	switch {
	case wasMarked && (!marked || value != before):
		f.forbidden(at.Key(corev1.MirrorPodAnnotationKey), "may not remove or update mirror pod annotation")
	case marked && !wasMarked:
		f.forbidden(at.Key(corev1.MirrorPodAnnotationKey), "may not add mirror pod annotation")
	}
}

// checkDeadlineUpdate allows the Pod's active deadline to be set and to become earlier. It returns
// false if no further check is useful.
func (f *findings) checkDeadlineUpdate(now, was *int64, at *field.Path) bool {
	switch {
	case now == nil && was == nil:
	case now == nil:
		f.invalid(at, now, "must not update from a positive integer to nil value")
	case *now < 0 || *now > math.MaxInt32:
		f.invalid(at, *now, validation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case was != nil && *was < *now:
		f.invalid(at, *now, "must be less than or equal to previous value")
		return false
	}
	return true
}

// checkTolerationUpdate allows new tolerations, and changed seconds of old ones.
func (f *findings) checkTolerationUpdate(now, was []corev1.Toleration, at *field.Path) {
	for _, old := range was {
		kept := slices.ContainsFunc(now, func(t corev1.Toleration) bool {
			t.TolerationSeconds = old.TolerationSeconds
			return t == old
		})
		if !kept {
			f.forbidden(at, "existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
	f.add(validateTolerations(now, at)...)
}

// checkGateUpdate allows scheduling gates to be removed only.
func (f *findings) checkGateUpdate(now, was []corev1.PodSchedulingGate, at *field.Path) {
	for i, gate := range now {
		if !slices.Contains(was, gate) {
			f.forbidden(at.Index(i).Child("name"),
				fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", gate.Name))
		}
	}
}

// checkGatedUpdate allows additions to the node selector of a Pod with scheduling gates. Upstream
// allows additions to its node affinity too.
func (f *findings) checkGatedUpdate(rest, old *corev1.PodSpec, at *field.Path) {
	for key, value := range old.NodeSelector {
		if now, ok := rest.NodeSelector[key]; !ok || now != value {
			f.invalid(at.Child("nodeSelector"), rest.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)")
			break
		}
	}
	rest.NodeSelector = old.NodeSelector
}
