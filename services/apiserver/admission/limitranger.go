package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	helper "k8s.io/component-helpers/resource"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// limitRangerAnnotation lists the requests and limits that a LimitRange has given to a pod.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// enforcesLimits reports whether LimitRanges apply to a write: of new pods, of resizes, and of claims
// (upstream's SupportsAttributes). Writes to an object that is being deleted are exempt.
func enforcesLimits(a Attributes, obj, old kinds.Object) bool {
	if old != nil && old.GetDeletionTimestamp() != nil {
		return false
	}
	switch obj.(type) {
	case *corev1.Pod:
		return a.Verb == proto.VerbCreate && a.Subresource == "" || a.Verb != proto.VerbCreate && a.Subresource == "resize"
	case *corev1.PersistentVolumeClaim:
		return a.Subresource == ""
	}
	return false
}

// applyLimitRanges gives the containers of a pod the default requests and limits of its namespace
// (upstream's PodMutateLimitFunc).
func applyLimitRanges(pod *corev1.Pod, ranges []*corev1.LimitRange) {
	for _, limitRange := range ranges {
		defaults := containerDefaults(limitRange)
		var notes []string
		for i := range pod.Spec.Containers {
			notes = append(notes, mergeResources(&pod.Spec.Containers[i], "container", defaults)...)
		}
		for i := range pod.Spec.InitContainers {
			notes = append(notes, mergeResources(&pod.Spec.InitContainers[i], "init container", defaults)...)
		}
		if len(notes) == 0 {
			continue
		}
		annotations := maps.Clone(pod.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
		pod.Annotations = annotations
	}
}

// containerDefaults returns the requests and limits that a LimitRange gives to containers
// (defaultContainerResourceRequirements).
func containerDefaults(limitRange *corev1.LimitRange) corev1.ResourceRequirements {
	defaults := corev1.ResourceRequirements{Requests: make(corev1.ResourceList), Limits: make(corev1.ResourceList)}
	for _, item := range limitRange.Spec.Limits {
		if item.Type == corev1.LimitTypeContainer {
			maps.Copy(defaults.Requests, item.DefaultRequest)
			maps.Copy(defaults.Limits, item.Default)
		}
	}
	return defaults
}

// mergeResources sets the missing requests and limits of a container, and returns what it has set in
// the words of the annotation (mergeContainerResources).
func mergeResources(c *corev1.Container, word string, defaults corev1.ResourceRequirements) []string {
	var notes []string
	note := func(what string, set []string) {
		if len(set) > 0 {
			notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(set, ", "), what, word, c.Name))
		}
	}
	var setRequests, setLimits []string
	c.Resources.Requests, setRequests = addMissing(c.Resources.Requests, defaults.Requests)
	c.Resources.Limits, setLimits = addMissing(c.Resources.Limits, defaults.Limits)
	note("request", setRequests)
	note("limit", setLimits)
	return notes
}

// addMissing returns list with the defaults that it lacks, and the sorted names of those. list itself
// is not changed.
func addMissing(list, defaults corev1.ResourceList) (corev1.ResourceList, []string) {
	var added []string
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if _, has := list[name]; !has {
			added = append(added, string(name))
		}
	}
	if len(added) == 0 {
		return list, nil
	}
	merged := maps.Clone(defaults)
	maps.Copy(merged, list)
	return merged, added
}

// checkLimitRanges returns what the first violated LimitRange says about an object (upstream's
// ValidateLimit).
func checkLimitRanges(obj kinds.Object, ranges []*corev1.LimitRange) error {
	for _, limitRange := range ranges {
		var errs []error
		for _, item := range limitRange.Spec.Limits {
			switch obj := obj.(type) {
			case *corev1.Pod:
				errs = append(errs, checkPodLimits(obj, item)...)
			case *corev1.PersistentVolumeClaim:
				errs = append(errs, checkClaimLimits(obj, item)...)
			}
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return err
		}
	}
	return nil
}

// checkPodLimits checks the containers of a pod, or their sum (PodValidateLimitFunc).
func checkPodLimits(pod *corev1.Pod, item corev1.LimitRangeItem) []error {
	var errs []error
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			errs = append(errs, checkAmounts(item, c.Resources.Requests, c.Resources.Limits)...)
		}
	case corev1.LimitTypePod:
		requests, limits := podAmounts(pod)
		errs = checkAmounts(item, requests, limits)
	case corev1.LimitTypePersistentVolumeClaim: // says nothing of pods
	}
	return errs
}

// podAmounts sums what a pod requests and is limited to, without its overhead. Of the resources of the
// pod itself only CPU and memory count (podRequests, podLimits).
func podAmounts(pod *corev1.Pod) (requests, limits corev1.ResourceList) {
	sum := helper.PodResourcesOptions{SkipPodLevelResources: true, ExcludeOverhead: true}
	requests, limits = helper.PodRequests(pod, sum), helper.PodLimits(pod, sum)
	if own := pod.Spec.Resources; own != nil {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount, has := own.Requests[name]; has {
				requests[name] = amount
			}
			if amount, has := own.Limits[name]; has {
				limits[name] = amount
			}
		}
	}
	return requests, limits
}

// checkClaimLimits checks the size that a claim requests (PersistentVolumeClaimValidateLimitFunc).
func checkClaimLimits(claim *corev1.PersistentVolumeClaim, item corev1.LimitRangeItem) []error {
	if item.Type != corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		errs = append(errs, constraint{item.Type, name, item.Min[name]}.checkMin(claim.Spec.Resources.Requests, nil))
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		errs = append(errs, constraint{item.Type, name, item.Max[name]}.checkMaxRequest(claim.Spec.Resources.Requests))
	}
	return errs
}

// checkAmounts checks requests and limits against all constraints of an item. Some of the errors are nil.
func checkAmounts(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		errs = append(errs, constraint{item.Type, name, item.Min[name]}.checkMin(requests, limits))
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		errs = append(errs, constraint{item.Type, name, item.Max[name]}.checkMax(requests, limits))
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		errs = append(errs, constraint{item.Type, name, item.MaxLimitRequestRatio[name]}.checkRatio(requests, limits))
	}
	return errs
}

// constraint is one minimum, maximum or ratio of a LimitRange.
type constraint struct {
	limitType corev1.LimitType
	resource  corev1.ResourceName
	enforced  resource.Quantity
}

func (c constraint) errorf(format string, a ...any) error {
	return fmt.Errorf(format, append([]any{c.resource, c.limitType, c.enforced.String()}, a...)...)
}

// checkMin is upstream's minConstraint.
func (c constraint) checkMin(requests, limits corev1.ResourceList) error {
	request, requested := requests[c.resource]
	limit, limited := limits[c.resource]
	requestValue, limitValue, enforced := scaleEvenly(request, limit, c.enforced)
	switch {
	case !requested:
		return c.errorf("minimum %s usage per %s is %s.  No request is specified")
	case requestValue < enforced:
		return c.errorf("minimum %s usage per %s is %s, but request is %s", request.String())
	case limited && limitValue < enforced:
		return c.errorf("minimum %s usage per %s is %s, but limit is %s", limit.String())
	}
	return nil
}

// checkMaxRequest is upstream's maxRequestConstraint.
func (c constraint) checkMaxRequest(requests corev1.ResourceList) error {
	request, requested := requests[c.resource]
	requestValue, _, enforced := scaleEvenly(request, resource.Quantity{}, c.enforced)
	switch {
	case !requested:
		return c.errorf("maximum %s usage per %s is %s.  No request is specified")
	case requestValue > enforced:
		return c.errorf("maximum %s usage per %s is %s, but request is %s", request.String())
	}
	return nil
}

// checkMax is upstream's maxConstraint.
func (c constraint) checkMax(requests, limits corev1.ResourceList) error {
	request, requested := requests[c.resource]
	limit, limited := limits[c.resource]
	requestValue, limitValue, enforced := scaleEvenly(request, limit, c.enforced)
	switch {
	case !limited:
		return c.errorf("maximum %s usage per %s is %s.  No limit is specified")
	case limitValue > enforced:
		return c.errorf("maximum %s usage per %s is %s, but limit is %s", limit.String())
	case requested && requestValue > enforced:
		return c.errorf("maximum %s usage per %s is %s, but request is %s", request.String())
	}
	return nil
}

// checkRatio is upstream's limitRequestRatioConstraint.
func (c constraint) checkRatio(requests, limits corev1.ResourceList) error {
	request, requested := requests[c.resource]
	limit, limited := limits[c.resource]
	requestValue, limitValue, _ := scaleEvenly(request, limit, c.enforced)
	switch {
	case !requested || requestValue == 0:
		return c.errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0")
	case !limited || limitValue == 0:
		return c.errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0")
	}
	ratio := float64(limitValue) / float64(requestValue)
	scaled, largest := ratio, float64(c.enforced.Value())
	if c.enforced.Value() <= resource.MaxMilliValue {
		scaled, largest = ratio*1000, float64(c.enforced.MilliValue())
	}
	if scaled > largest {
		return c.errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", ratio)
	}
	return nil
}

// scaleEvenly returns three quantities in thousandths if none overflows, or in whole numbers
// (requestLimitEnforcedValues).
func scaleEvenly(request, limit, enforced resource.Quantity) (requestValue, limitValue, enforcedValue int64) {
	if max(request.Value(), limit.Value(), enforced.Value()) <= resource.MaxMilliValue {
		return request.MilliValue(), limit.MilliValue(), enforced.MilliValue()
	}
	return request.Value(), limit.Value(), enforced.Value()
}
