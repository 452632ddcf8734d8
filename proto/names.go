package proto

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
)

// MaxName is the longest name of an object, a namespace or a subresource, in bytes.
const MaxName = 253

// CheckName refuses text that is the name of no object, before it becomes part of a subject or of a
// key of the store. The error is a BadRequest that names the field. Empty text is none, and passes.
func CheckName(field, text string) error {
	if len(text) > MaxName {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: want at most %d bytes, not %d", field, MaxName, len(text)))
	}
	if text == "" {
		return nil
	}
	if wrong := content.IsPathSegmentName(text); len(wrong) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("%s %q: %s", field, text, strings.Join(wrong, "; ")))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return apierrors.NewBadRequest(fmt.Sprintf("%s %q: want printable ASCII characters", field, text))
	}
	return nil
}
