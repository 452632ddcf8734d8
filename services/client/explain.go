package client

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Explain is err as kubectl prints it, without a newline: "Error from server
// (NotFound): …" for what the server refused, "error: …" for the rest.
func Explain(err error) string {
	if several, ok := asSeveral(err); ok {
		lines := make([]string, len(several))
		for i, one := range several {
			lines[i] = plain(one)
		}
		return strings.Join(lines, "\n")
	}
	if status, ok := asStatus(err); ok {
		if status.Reason == metav1.StatusReasonInvalid {
			return explainInvalid(status)
		}
		return fromServer(status)
	}
	if text := err.Error(); strings.HasPrefix(text, "error: ") {
		return text
	}
	return "error: " + err.Error()
}

// plain is an error among others: only what the server refused is introduced.
func plain(err error) string {
	if status, ok := asStatus(err); ok {
		return fromServer(status)
	}
	return err.Error()
}

func fromServer(status metav1.Status) string {
	if status.Reason == metav1.StatusReasonUnauthorized {
		return fmt.Sprintf("error: You must be logged in to the server (%s)", status.Message)
	}
	if status.Reason == metav1.StatusReasonUnknown {
		return "Error from server: " + status.Message
	}
	return fmt.Sprintf("Error from server (%s): %s", status.Reason, status.Message)
}

// explainInvalid names the fields that are wrong, each once.
func explainInvalid(status metav1.Status) string {
	text := "The request is invalid"
	details := status.Details
	switch {
	case details == nil && status.Message != "":
		return text + ": " + status.Message
	case details == nil:
		return text
	case details.Kind != "" || details.Name != "":
		text = fmt.Sprintf("The %s %q is invalid", details.Kind, details.Name)
	case status.Message != "" && len(details.Causes) == 0:
		text += ": " + status.Message
	}
	var causes []string
	seen := map[string]bool{}
	for _, cause := range details.Causes {
		line := cause.Field + ": " + cause.Message
		if !seen[line] {
			seen[line] = true
			causes = append(causes, line)
		}
	}
	switch len(causes) {
	case 0:
		return text
	case 1:
		return text + ": " + causes[0]
	default:
		return text + ": \n* " + strings.Join(causes, "\n* ")
	}
}

// asSeveral flattens an error that stands for more than one.
func asSeveral(err error) ([]error, bool) {
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		return nil, false
	}
	all := utilerrors.Flatten(aggregate).Errors()
	return all, len(all) > 1
}

// asStatus is what the server said, however wrapped. A connection that could not be
// made is a status too, made by podapi.
func asStatus(err error) (metav1.Status, bool) {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		return metav1.Status{}, false
	}
	return refused.Status(), true
}

// whileDoing puts what was being done to the manifest in source in front of an error.
func whileDoing(doing, source string, err error) error {
	if source == "" || err == nil {
		return err
	}
	if status, ok := asStatus(err); ok {
		status.Message = fmt.Sprintf("error when %s %q: %v", doing, source, status.Message)
		return &apierrors.StatusError{ErrStatus: status}
	}
	return fmt.Errorf("error when %s %q: %w", doing, source, err)
}

// joined is nil, the one error, or all of them.
func joined(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return utilerrors.NewAggregate(errs)
}
