package proto

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusFrom is the one form that an error has on the wire. An error that is, or
// wraps, an apierrors.APIStatus keeps its status; any other becomes a 500.
func StatusFrom(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}

// ErrorFrom is the inverse: the error that apierrors.IsNotFound, IsConflict and the
// like understand; nil for a status of success.
func ErrorFrom(status *metav1.Status) error {
	if status == nil || status.Status == metav1.StatusSuccess {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// RuntimeError is how a runtime refuses a CRI call; its text is a gRPC client's.
type RuntimeError struct {
	// Code is a gRPC status code by name.
	Code string
	// Desc says what went wrong.
	Desc string
	// Unanswered says that these are the caller's own words: the runtime has said nothing in
	// time, and may do what it was asked to later.
	Unanswered bool
}

// The gRPC codes that a runtime answers with.
const (
	CodeOK               = "OK"
	CodeNotFound         = "NotFound"
	CodeInvalidArgument  = "InvalidArgument"
	CodeDeadlineExceeded = "DeadlineExceeded"
	CodeUnavailable      = "Unavailable"
	CodeUnimplemented    = "Unimplemented"
	CodeCanceled         = "Canceled"
	CodeUnknown          = "Unknown"
)

// Error implements error.
func (e *RuntimeError) Error() string {
	return fmt.Sprintf("rpc error: code = %s desc = %s", e.Code, e.Desc)
}

// IsRuntimeCode reports whether err is, or wraps, a RuntimeError of the code.
func IsRuntimeCode(err error, code string) bool {
	var refused *RuntimeError
	return errors.As(err, &refused) && refused.Code == code
}

// IsRuntimeAway reports whether err is, or wraps, a RuntimeError that is no answer of the
// runtime's: it was not to be reached, or said nothing in time.
func IsRuntimeAway(err error) bool {
	var refused *RuntimeError
	return errors.As(err, &refused) && (refused.Unanswered || refused.Code == CodeUnavailable)
}
