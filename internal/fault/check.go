package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
)

// Check returns the invalid fields of a fault, if any.
func Check(name string, spec Spec) error {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	} else {
		for _, text := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, text))
		}
	}
	return append(errs, spec.check(field.NewPath("spec"))...).ToAggregate()
}

func (s Spec) check(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	points := s.Point.matchingPoints(Points())
	if len(points) == 0 {
		return field.ErrorList{field.NotSupported(at.Child("point"), s.Point, pointNames())}
	}
	errs = append(errs, s.Where.check(at.Child("where"), points)...)
	errs = append(errs, s.Effect.check(at.Child("effect"), points)...)
	if !(s.Probability >= 0 && s.Probability <= 1) { // NaN too
		errs = append(errs, field.Invalid(at.Child("probability"), s.Probability, "want a number from 0 to 1"))
	}
	if s.Duration.Duration < 0 {
		errs = append(errs, field.Invalid(at.Child("duration"), s.Duration.Duration.String(), "must not be negative"))
	}
	return errs
}

// matchingPoints returns those of the points that p selects.
func (p Point) matchingPoints(points []PointInfo) []PointInfo {
	return slices.DeleteFunc(points, func(info PointInfo) bool {
		return strings.Contains(string(p), ",") || !matchesPattern(string(p), string(info.Point))
	})
}

// pointNames returns the names of all points, for error messages.
func pointNames() []Point {
	var all []Point
	for _, info := range Points() {
		all = append(all, info.Point)
	}
	return all
}

func (a Attributes) check(at *field.Path, points []PointInfo) field.ErrorList {
	var errs field.ErrorList
	values := a.fields()
	for i, name := range selectors() {
		if values[i] == "" || slices.Contains(commonSelectors(), name) {
			continue
		}
		if !slices.ContainsFunc(points, func(info PointInfo) bool { return slices.Contains(info.Where, name) }) {
			known := slices.Concat(commonSelectors(), points[0].Where)
			errs = append(errs, field.Invalid(at.Child(name), values[i],
				fmt.Sprintf("%s is selected by %s", points[0].Point, strings.Join(known, ", "))))
		}
	}
	return errs
}

// commonSelectors returns the selectors that every point knows.
func commonSelectors() []string { return []string{"process", "node"} }

func (e Effect) check(at *field.Path, points []PointInfo) field.ErrorList {
	supports := func(info PointInfo) bool { return slices.Contains(info.Kinds, e.Kind) }
	i := slices.IndexFunc(points, supports)
	if i < 0 {
		return field.ErrorList{field.NotSupported(at.Child("type"), e.Kind, points[0].Kinds)}
	}
	var errs field.ErrorList
	refuse := func(name, value, text string) { errs = append(errs, field.Invalid(at.Child(name), value, text)) }
	switch {
	case e.Kind == Delay && e.Delay.Duration <= 0:
		refuse("delay", e.Delay.Duration.String(), "must be more than 0")
	case e.Kind != Delay && e.Delay.Duration != 0:
		refuse("delay", e.Delay.Duration.String(), "is for the effect delay alone")
	}
	switch text := points[i].validateValue(e.Value); {
	case e.Kind == Value && text != "":
		refuse("value", e.Value, text)
	case e.Kind != Value && e.Value != "":
		refuse("value", e.Value, "is for the effect value alone")
	}
	switch text := points[i].Codes.validate(e.Code); {
	case e.Kind != Error && e.Code != "":
		refuse("code", e.Code, "is for the effect error alone")
	case text != "":
		refuse("code", e.Code, text)
	}
	if e.Kind != Error && e.Message != "" {
		refuse("message", e.Message, "is for the effect error alone")
	}
	return errs
}

// validateValue returns what is wrong with a value, or "".
func (p PointInfo) validateValue(value string) string {
	switch {
	case slices.Contains(p.Values, anyDuration):
		if _, _, err := ParseSkew(value); err != nil {
			return err.Error()
		}
		return ""
	case slices.Contains(p.Values, anyLimit):
		if _, err := ParseLimit(value); err != nil {
			return err.Error()
		}
		return ""
	}
	if !slices.Contains(p.Values, value) {
		return "want one of " + strings.Join(p.Values, ", ")
	}
	return ""
}

// validate returns what is wrong with a code, or "". An empty code means the point's default.
func (s CodeSet) validate(code string) string {
	if code == "" {
		return ""
	}
	switch s {
	case codeGRPC:
		if codes := grpcCodes(); !slices.Contains(codes, code) {
			return "want one of " + strings.Join(codes, ", ")
		}
	case codeHTTP:
		if n, err := strconv.Atoi(code); err != nil || n < 400 || n > 599 {
			return "want an HTTP status from 400 to 599"
		}
	case codeNone:
		return "the errors of this point have no code"
	}
	return ""
}

func grpcCodes() []string {
	return []string{
		proto.CodeCanceled, proto.CodeDeadlineExceeded, proto.CodeInvalidArgument, proto.CodeNotFound,
		proto.CodeUnavailable, proto.CodeUnimplemented, proto.CodeUnknown,
	}
}
