package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// limitRangeRules returns the rules of LimitRanges.
func limitRangeRules() rules[*corev1.LimitRange] {
	return rules[*corev1.LimitRange]{
		defaults: func(limitRange *corev1.LimitRange) {
			for i := range limitRange.Spec.Limits {
				defaultLimits(&limitRange.Spec.Limits[i])
			}
		},
		validate: validateLimitRange,
	}
}

// defaultLimits completes the limits of containers: the default limit is the maximum, and the default
// request is the default limit or else the minimum (SetDefaults_LimitRangeItem).
func defaultLimits(item *corev1.LimitRangeItem) {
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		roundUp(list)
	}
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	item.Default = merge(item.Max, item.Default)
	item.DefaultRequest = merge(item.Min, item.Default, item.DefaultRequest)
}

// merge returns the amounts of all lists; later lists take precedence.
func merge(lists ...corev1.ResourceList) corev1.ResourceList {
	merged := make(corev1.ResourceList)
	for _, list := range lists {
		maps.Copy(merged, list)
	}
	return merged
}

// validateLimitRange is upstream's ValidateLimitRange.
func validateLimitRange(limitRange *corev1.LimitRange) field.ErrorList {
	f := &findings{}
	var seen []corev1.LimitType
	for i, item := range limitRange.Spec.Limits {
		at := field.NewPath("spec", "limits").Index(i)
		f.checkLimitType(at.Child("type"), item.Type)
		if slices.Contains(seen, item.Type) {
			f.add(field.Duplicate(at.Child("type"), item.Type))
		}
		seen = append(seen, item.Type)
		f.checkLimitNames(at, item)
		if item.Type == corev1.LimitTypePod {
			if len(item.Default) > 0 {
				f.forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'")
			}
			if len(item.DefaultRequest) > 0 {
				f.forbidden(at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'")
			}
			item.Default, item.DefaultRequest = nil, nil
		}
		if item.Type == corev1.LimitTypePersistentVolumeClaim {
			if _, has := merge(item.Min, item.Max)[corev1.ResourceStorage]; !has {
				f.required(at.Child("limits"), "either minimum or maximum storage value is required, but neither was provided")
			}
		}
		all := merge(item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f.checkLimitOrder(at, item, name)
			f.checkLimitRatio(at, item, name)
		}
	}
	return f.errs
}

// checkLimitType requires a standard type or a qualified name (validateLimitRangeTypeName).
func (f *findings) checkLimitType(at *field.Path, value corev1.LimitType) {
	wrong := validation.IsQualifiedName(string(value))
	f.invalid(at, value, wrong...)
	standard := []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}
	if len(wrong) == 0 && !strings.Contains(string(value), "/") && !slices.Contains(standard, value) {
		f.invalid(at, value, "must be a standard limit type or fully qualified")
	}
}

// checkLimitNames checks the names of the resources of an item (validateLimitRangeResourceName).
func (f *findings) checkLimitNames(at *field.Path, item corev1.LimitRangeItem) {
	check := func(child string, list corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			place := at.Child(child).Key(string(name))
			if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
				f.checkContainerResourceName(name, place)
			} else {
				f.checkResourceName(name, place)
			}
		}
	}
	check("max", item.Max)
	check("min", item.Min)
	if item.Type != corev1.LimitTypePod {
		check("default", item.Default)
		check("defaultRequest", item.DefaultRequest)
	}
	check("maxLimitRequestRatio", item.MaxLimitRequestRatio)
}

// checkLimitOrder requires the minimum, the default request, the default limit and the maximum of a
// resource to be in this order.
func (f *findings) checkLimitOrder(at *field.Path, item corev1.LimitRangeItem, name corev1.ResourceName) {
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	limit, hasLimit := item.Default[name]
	request, hasRequest := item.DefaultRequest[name]
	check := func(both bool, lower, upper resource.Quantity, child string, reported resource.Quantity, format string) {
		if both && lower.Cmp(upper) > 0 {
			f.invalid(at.Child(child).Key(string(name)), reported, fmt.Sprintf(format, lower.String(), upper.String()))
		}
	}
	check(hasLeast && hasMost, least, most, "min", least, "min value %s is greater than max value %s")
	check(hasRequest && hasLeast, least, request, "defaultRequest", request, "min value %s is greater than default request value %s")
	check(hasRequest && hasMost, request, most, "defaultRequest", request, "default request value %s is greater than max value %s")
	check(hasRequest && hasLimit, request, limit, "defaultRequest", request, "default request value %s is greater than default limit value %s")
	check(hasLimit && hasLeast, least, limit, "default", least, "min value %s is greater than default value %s")
	check(hasLimit && hasMost, limit, most, "default", most, "default value %s is greater than max value %s")
}

// checkLimitRatio checks the largest ratio of a limit to its request. A resource that is not
// overcommitable has equal default limit and default request.
func (f *findings) checkLimitRatio(at *field.Path, item corev1.LimitRangeItem, name corev1.ResourceName) {
	ratio, hasRatio := item.MaxLimitRequestRatio[name]
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	place := at.Child("maxLimitRequestRatio").Key(string(name))
	if hasRatio && ratio.CmpInt64(1) < 0 {
		f.invalid(place, ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String()))
	}
	if hasRatio && hasLeast && hasMost {
		value, low, high := float64(ratio.Value()), least.Value(), most.Value()
		if max(ratio.Value(), low, high) < resource.MaxMilliValue {
			value, low, high = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
		}
		if widest := float64(high) / float64(low); value > widest {
			f.invalid(place, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), widest))
		}
	}
	limit, hasLimit := item.Default[name]
	request, hasRequest := item.DefaultRequest[name]
	if !isOvercommitable(name) && hasLimit && hasRequest && limit.Cmp(request) != 0 {
		f.invalid(at.Child("defaultRequest").Key(string(name)), request,
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name))
	}
}
