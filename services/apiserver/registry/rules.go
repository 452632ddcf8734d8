package registry

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// rules are what a kind adds to the generic strategy; a nil function adds nothing. Each function
// may change obj only, and is idempotent.
type rules[T kinds.Object] struct {
	// defaults sets missing fields, of new objects and of updates.
	defaults func(obj T)
	// create sets what only a new object gets. The UID is set already.
	create func(obj T)
	// keep takes over from old what an update need not repeat.
	keep func(obj, old T)
	// validate returns what is wrong with an object besides its metadata.
	validate func(obj T) field.ErrorList
	// validateCreate returns what is wrong with a new object, besides what validate returns.
	validateCreate func(obj T) field.ErrorList
	// validateUpdate returns why obj may not replace old, besides what validate returns.
	validateUpdate func(obj, old T) field.ErrorList
	// validateStatus returns why obj's status may not replace old's.
	validateStatus func(obj, old T) field.ErrorList
}

// ruleStrategy is the strategy of a kind with rules.
type ruleStrategy[T kinds.Object] struct {
	generic

	rules rules[T]
}

func (s ruleStrategy[T]) PrepareForCreate(obj kinds.Object, now time.Time) {
	typed := as[T](obj)
	s.generic.PrepareForCreate(obj, now)
	if s.rules.defaults != nil {
		s.rules.defaults(typed)
	}
	if s.rules.create != nil {
		s.rules.create(typed)
	}
}

func (s ruleStrategy[T]) Validate(obj kinds.Object) field.ErrorList {
	errs := ValidateMeta(s.kind, obj)
	if s.rules.validate != nil {
		errs = append(errs, s.rules.validate(as[T](obj))...)
	}
	if s.rules.validateCreate != nil {
		errs = append(errs, s.rules.validateCreate(as[T](obj))...)
	}
	return errs
}

func (s ruleStrategy[T]) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	if subresource != statusSubresource {
		typed := as[T](obj)
		if s.rules.keep != nil {
			s.rules.keep(typed, as[T](old))
		}
		if s.rules.defaults != nil {
			s.rules.defaults(typed)
		}
	}
	s.generic.PrepareForUpdate(obj, old, subresource)
}

func (s ruleStrategy[T]) ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList {
	errs := validateKindMetaUpdate(obj, old)
	now, before := as[T](obj), as[T](old)
	if subresource == statusSubresource {
		if s.rules.validateStatus != nil {
			errs = append(errs, s.rules.validateStatus(now, before)...)
		}
		return errs
	}
	if s.rules.validate != nil {
		errs = append(errs, s.rules.validate(now)...)
	}
	if s.rules.validateUpdate != nil {
		errs = append(errs, s.rules.validateUpdate(now, before)...)
	}
	return errs
}

// statusSubresource is the subresource that writes an object's status.
const statusSubresource = "status"

// checkNotNegatives requires numbers from 0 on; nil is allowed.
func checkNotNegatives[T int32 | int64](f *findings, at *field.Path, named ...namedNumber[T]) {
	for _, n := range named {
		if n.value != nil && *n.value < 0 {
			f.invalid(at.Child(n.name), *n.value, "must be greater than or equal to 0")
		}
	}
}

// namedNumber is a field with its name; nil means not set.
type namedNumber[T int32 | int64] struct {
	name  string
	value *T
}

func number[T int32 | int64](name string, value T) namedNumber[T] {
	return namedNumber[T]{name, &value}
}

// checkAtMost refuses numbers above limit, which the message names as of.
func (f *findings) checkAtMost(at *field.Path, limit int32, of string, named ...namedNumber[int32]) {
	for _, n := range named {
		if *n.value > limit {
			f.invalid(at.Child(n.name), *n.value, "cannot be greater than "+of)
		}
	}
}

// checkSelector requires a valid label selector. The caller decides about an empty one.
func (f *findings) checkSelector(at *field.Path, selector *metav1.LabelSelector) {
	f.add(sortPerField(unversioned.ValidateLabelSelector(selector, unversioned.LabelSelectorValidationOptions{}, at))...)
}

func isEmptySelector(selector *metav1.LabelSelector) bool {
	return len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// checkIntOrPercent requires a number from 0 on or a percentage.
func (f *findings) checkIntOrPercent(at *field.Path, value intstr.IntOrString) {
	switch value.Type {
	case intstr.String:
		for _, wrong := range validation.IsValidPercent(value.StrVal) {
			f.invalid(at, value, wrong)
		}
	case intstr.Int:
		f.checkNotNegative(at, int64(value.IntVal))
	default:
		f.invalid(at, value, "must be an integer or percentage (e.g '5%%')")
	}
}

// checkAtMost100 refuses a percentage above 100.
func (f *findings) checkAtMost100(at *field.Path, value intstr.IntOrString) {
	if percent, ok := percentOf(value); ok && percent > 100 {
		f.invalid(at, value, "must not be greater than 100%")
	}
}

func percentOf(value intstr.IntOrString) (int, bool) {
	if value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	var percent int
	if _, err := fmt.Sscanf(value.StrVal, "%d%%", &percent); err != nil {
		return 0, false
	}
	return percent, true
}

// isZero reports whether a number or a percentage is 0 or nil.
func isZero(value *intstr.IntOrString) bool {
	if value == nil {
		return true
	}
	if percent, ok := percentOf(*value); ok {
		return percent == 0
	}
	return value.Type == intstr.Int && value.IntVal == 0
}
