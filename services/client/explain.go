package client

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/terminal"
)

// explainError returns an error as kubectl prints it, without a newline: "Error from server
// (NotFound): …" for what the server refused, "error: …" for the rest (upstream's StandardErrorMessage).
func explainError(err error) string {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		status := refused.Status()
		if status.Reason == metav1.StatusReasonUnauthorized {
			return fmt.Sprintf("error: You must be logged in to the server (%s)", terminal.Line(status.Message))
		}
		if status.Reason == metav1.StatusReasonUnknown {
			return "Error from server: " + terminal.Line(status.Message)
		}
		return fmt.Sprintf("Error from server (%s): %s", status.Reason, terminal.Line(status.Message))
	}
	if text := err.Error(); strings.HasPrefix(text, "error: ") {
		return text
	}
	return "error: " + err.Error()
}
