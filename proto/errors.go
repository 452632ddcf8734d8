package proto

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusFrom converts an error to its wire form. An error that is, or wraps, an apierrors.APIStatus
// keeps its status; any other becomes a 500.
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

// ErrorFrom converts a status to an error that apierrors.IsNotFound, IsConflict and similar
// functions understand; nil for success.
func ErrorFrom(status *metav1.Status) error {
	if status == nil || status.Status == metav1.StatusSuccess {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// RuntimeError is the error of a CRI call; its text is that of a gRPC client.
type RuntimeError struct {
	// Code is a gRPC status code by name.
	Code string
	// Desc says what went wrong.
	Desc string
	// Unanswered is set if the caller made up the error: the runtime did not answer in time, and
	// may still carry out the call.
	Unanswered bool
}

// The gRPC codes of a runtime's answers.
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

// IsRuntimeCode reports whether err is, or wraps, a RuntimeError with the code.
func IsRuntimeCode(err error, code string) bool {
	var refused *RuntimeError
	return errors.As(err, &refused) && refused.Code == code
}

// IsRuntimeUnavailable reports whether err is, or wraps, a RuntimeError without an answer of the
// runtime: it could not be reached, or did not answer in time.
func IsRuntimeUnavailable(err error) bool {
	var refused *RuntimeError
	return errors.As(err, &refused) && (refused.Unanswered || refused.Code == CodeUnavailable)
}
