package registry

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTolerations returns what is wrong with the tolerations of a Pod.
func validateTolerations(tolerations []corev1.Toleration, at *field.Path) field.ErrorList {
	f := &findings{}
	for i, t := range tolerations {
		item := at.Index(i)
		if t.Key != "" {
			f.add(unversioned.ValidateLabelName(t.Key, item.Child("key"))...)
		}
		if t.Key == "" && t.Operator != corev1.TolerationOpExists {
			f.invalid(item.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			f.invalid(item.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		f.checkTolerationOperator(item, t)
		if t.Effect != "" {
			f.checkTaintEffect(item.Child("effect"), t.Effect)
		}
	}
	return f.errs
}

func (f *findings) checkTolerationOperator(at *field.Path, t corev1.Toleration) {
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if wrong := validation.IsValidLabelValue(t.Value); len(wrong) > 0 {
			f.invalid(at.Child("operator"), t.Value, strings.Join(wrong, ";"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			f.invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")
		}
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			f.invalid(at.Child("value"), t.Value, err.Error())
		}
	default:
		f.add(field.NotSupported(at.Child("operator"), t.Operator,
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
}

// checkTaintEffect requires one of the three effects of a taint.
func (f *findings) checkTaintEffect(at *field.Path, effect corev1.TaintEffect) {
	checkOneOf(f, at, effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}
