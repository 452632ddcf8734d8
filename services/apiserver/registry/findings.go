package registry

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// findings collects what is wrong with an object. Its order is the order of the causes in the
// answer.
type findings struct {
	errs field.ErrorList
}

func (f *findings) add(errs ...*field.Error) { f.errs = append(f.errs, errs...) }

// invalid adds an error for each message.
func (f *findings) invalid(at *field.Path, value any, messages ...string) {
	for _, message := range messages {
		f.add(field.Invalid(at, value, message))
	}
}

func (f *findings) required(at *field.Path, detail string) { f.add(field.Required(at, detail)) }

func (f *findings) forbidden(at *field.Path, detail string) { f.add(field.Forbidden(at, detail)) }

// checkNotEmpty requires a text, and reports whether there is one.
func (f *findings) checkNotEmpty(at *field.Path, value string) bool {
	if value == "" {
		f.required(at, "")
	}
	return value != ""
}

// checkLabel requires a DNS label.
func (f *findings) checkLabel(at *field.Path, value string) {
	if f.checkNotEmpty(at, value) {
		f.invalid(at, value, validation.IsDNS1123Label(value)...)
	}
}

// checkNotNegative requires a number from 0 on.
func (f *findings) checkNotNegative(at *field.Path, value int64) {
	if value < 0 {
		f.invalid(at, value, "must be greater than or equal to 0")
	}
}

// checkQuantity requires a quantity from 0 on.
func (f *findings) checkQuantity(at *field.Path, value resource.Quantity) {
	if value.Sign() < 0 {
		f.invalid(at, value.String(), "must be greater than or equal to 0")
	}
}

// checkQualifiedName requires a name as labels and conditions have it, with or without a domain.
func (f *findings) checkQualifiedName(at *field.Path, value string) {
	f.invalid(at, value, validation.IsQualifiedName(value)...)
}

// checkPort requires the number or the name of a port.
func (f *findings) checkPort(at *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.String {
		f.invalid(at, port.StrVal, validation.IsValidPortName(port.StrVal)...)
		return
	}
	f.invalid(at, port.IntValue(), validation.IsValidPortNum(port.IntValue())...)
}

// checkFileMode requires the permission bits of a file.
func (f *findings) checkFileMode(at *field.Path, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		f.invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

// checkNoDotDot refuses a path with a ".." element.
func (f *findings) checkNoDotDot(at *field.Path, value string) {
	if slices.Contains(strings.Split(value, "/"), "..") {
		f.invalid(at, value, "must not contain '..'")
	}
}

// checkRelativePath requires a relative path without a ".." element.
func (f *findings) checkRelativePath(at *field.Path, value string) {
	if path.IsAbs(value) {
		f.invalid(at, value, "must be a relative path")
	}
	f.checkNoDotDot(at, value)
}

// checkFilePath requires a relative path whose first element does not begin with two dots. The
// kubelet uses such names itself.
func (f *findings) checkFilePath(at *field.Path, value string) {
	f.checkRelativePath(at, value)
	if strings.HasPrefix(value, "..") && !strings.HasPrefix(value, "../") {
		f.invalid(at, value, "must not start with '..'")
	}
}

// checkOneOf requires one of a few values, which the message lists in order.
func checkOneOf[T ~string](f *findings, at *field.Path, value T, supported ...T) {
	switch {
	case slices.Contains(supported, value):
	case value == "":
		f.required(at, "")
	default:
		f.add(field.NotSupported(at, value, supported))
	}
}

// exclusiveFields counts how many of several exclusive fields are set.
type exclusiveFields struct {
	findings *findings
	count    int
	tooMany  string
}

// add counts a field that is set, and checks it unless another one is set already.
func (s *exclusiveFields) add(at *field.Path, check func(at *field.Path)) {
	if s.count > 0 {
		s.findings.forbidden(at, s.tooMany)
		return
	}
	s.count++
	check(at)
}

// noCheck is for fields whose content is not validated.
func noCheck(*field.Path) {}
