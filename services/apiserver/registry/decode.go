package registry

import (
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/proto/kinds"
)

// FieldValidation says what happens to fields of a body that are unknown or duplicate: Ignore, Warn
// or Strict of metav1. Empty means Warn.
type FieldValidation = string

// The limits of what comes from outside.
const (
	// MaxBody is the largest size of a body or a patch in bytes.
	MaxBody = 3 << 20
	// maxDepth is the deepest nesting of JSON. No kind needs a quarter of it.
	maxDepth = 256
)

// DecodeBody reads an object of kind from a request's body, in any served version, into the
// preferred one. The strings are warnings for the client. The error is a 400, a 413 for a body
// above [MaxBody], or a 415 for a content type other than JSON, YAML and Kubernetes' protobuf.
func DecodeBody(
	kind kinds.Kind, contentType string, body []byte, fieldValidation FieldValidation,
) (kinds.Object, []string, error) {
	if err := checkSize(body); err != nil {
		return nil, nil, err
	}
	decoder, err := decoderFor(contentType, body, fieldValidation)
	if err != nil {
		return nil, nil, err
	}
	defaults := kind.GroupVersionKind
	decoded, gvk, err := decoder.Decode(body, &defaults, nil)
	var warnings []string
	if strict, ok := runtime.AsStrictDecodingError(err); ok && decoded != nil && fieldValidation != metav1.FieldValidationStrict {
		warnings, err = errorTexts(strict.Errors()), nil
	}
	if err != nil {
		return nil, nil, undecodable(kind, gvk, body, err)
	}
	obj, ok := decoded.(kinds.Object)
	if !ok || gvk.Kind != kind.Kind {
		return nil, nil, undecodable(kind, gvk, body, fmt.Errorf(
			"converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind, internalPackage(kind.Group), kind.Kind))
	}
	if gvk.Group != kind.Group {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)",
			gvk.GroupVersion(), kind.GroupVersion()))
	}
	obj, lost, err := toStored(obj, *gvk)
	if err != nil {
		return nil, nil, undecodable(kind, gvk, body, err)
	}
	return obj, append(warnings, lost...), nil
}

// internalPackage returns the name of upstream's package with the internal form of a group's kinds,
// which its message contains.
func internalPackage(group string) string {
	switch group {
	case "":
		return "core"
	case "internal.apiserver.k8s.io":
		return "apiserverinternal"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// toStored converts obj to the stored version. The strings are warnings about fields that were
// lost.
func toStored(obj kinds.Object, gvk schema.GroupVersionKind) (kinds.Object, []string, error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	stored, ok := kinds.ByResource(resourceOf(gvk))
	if !ok {
		return obj, nil, nil // such as a Binding, which is never stored
	}
	converted, lost, err := kinds.Convert(obj, stored.GroupVersionKind)
	for i, field := range lost {
		lost[i] = fmt.Sprintf("%s: %s has no such field, so it was dropped", field, stored.GroupVersion())
	}
	return converted, lost, err
}

func resourceOf(gvk schema.GroupVersionKind) string {
	kind, _ := kinds.ByGVK(gvk)
	return kind.GroupResource().String()
}

// decoderFor returns the decoder for a content type.
func decoderFor(contentType string, body []byte, fieldValidation FieldValidation) (runtime.Decoder, error) {
	scheme := kinds.Scheme()
	switch mediaType(contentType) {
	case "", kinds.ContentTypeJSON:
		if err := checkDepth(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
			json.SerializerOptions{Strict: fieldValidation != metav1.FieldValidationIgnore}), nil
	case runtime.ContentTypeYAML:
		if err := CheckYAML(body); err != nil {
			return nil, err
		}
		// What is no YAML is the decoder's to say.
		if document, err := yaml.YAMLToJSON(body); err == nil && checkDepth(document) != nil {
			return nil, apierrors.NewBadRequest(errTooDeep.Error())
		}
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
			json.SerializerOptions{Yaml: true, Strict: fieldValidation != metav1.FieldValidationIgnore}), nil
	case kinds.ContentTypeProtobuf:
		return protobuf.NewSerializer(scheme, scheme), nil
	}
	return nil, unsupportedMediaType(kinds.ContentTypeJSON, runtime.ContentTypeYAML, kinds.ContentTypeProtobuf)
}

// mediaType returns a content type without its parameters. Most have none.
func mediaType(contentType string) string {
	switch contentType {
	case "", kinds.ContentTypeJSON, runtime.ContentTypeYAML, kinds.ContentTypeProtobuf:
		return contentType
	}
	if parsed, _, err := mime.ParseMediaType(contentType); err == nil {
		return parsed
	}
	return contentType
}

// undecodable returns the 400 for a body, in upstream's words.
func undecodable(kind kinds.Kind, gvk *schema.GroupVersionKind, body []byte, err error) error {
	if gvk != nil && gvk.Kind != "" {
		if runtime.IsNotRegisteredError(err) {
			err = fmt.Errorf("no kind %q is registered for version %q in scheme %q", gvk.Kind, gvk.GroupVersion(), "podfall")
		}
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v",
			gvk.Kind, gvk.Version, kind.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)",
		kind.Kind, err, excerpt(body)))
}

// excerpt returns the beginning of a body, in hexadecimal unless it looks like JSON.
func excerpt(body []byte) string {
	const length = 30
	if len(body) == 0 {
		return "<empty>"
	}
	show, more := body, ""
	if len(body) > length {
		show, more = body[:length], " ..."
	}
	if body[0] == '{' {
		return string(show) + more
	}
	return hex.EncodeToString(show) + more
}

func checkSize(body []byte) error {
	if len(body) > MaxBody {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", MaxBody))
	}
	return nil
}

var errTooDeep = errors.New("JSON is nested more than 256 levels deep")

// checkDepth refuses deep nesting before any parser recurses into it. It works on any data, because
// it only counts brackets outside of strings.
func checkDepth(data []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return errTooDeep
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func unsupportedMediaType(accepted ...string) error {
	return newStatusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(accepted, ", "))
}

func errorTexts(errs []error) []string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return texts
}
