package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/aliases"
)

// maxBody is the largest request body in bytes.
const maxBody = 3 << 20

// readBody reads a request's whole body, or returns a 413.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(&io.LimitedReader{R: r.Body, N: maxBody + 1})
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body could not be read: %v", err))
	}
	if len(body) > maxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	return body, nil
}

// mediaType is the media type of a request's body; JSON by default.
func mediaType(r *http.Request) (string, error) {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return mediaJSON, nil
	}
	media, _, err := mime.ParseMediaType(header)
	if err != nil {
		return "", unsupportedMediaType(mediaJSON, mediaYAML, mediaProtobuf)
	}
	return media, nil
}

// readObjectBody reads an encoded object.
func readObjectBody(r *http.Request) (media string, body []byte, err error) {
	if media, err = mediaType(r); err != nil {
		return "", nil, err
	}
	if media != mediaJSON && media != mediaYAML && media != mediaProtobuf {
		return "", nil, unsupportedMediaType(mediaJSON, mediaYAML, mediaProtobuf)
	}
	if body, err = readBody(r); err != nil {
		return "", nil, err
	}
	return media, body, checkYAML(media, body)
}

// checkYAML refuses YAML that is too large with its aliases expanded.
func checkYAML(media string, body []byte) error {
	if media != mediaYAML {
		return nil
	}
	switch err := aliases.Check(body, maxBody); {
	case errors.Is(err, aliases.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case err != nil:
		return apierrors.NewBadRequest(fmt.Sprintf("error converting YAML to JSON: %v", err))
	}
	return nil
}

func unsupportedMediaType(accepted ...string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(accepted, ", "),
	}}
}

var errNotDeleteOptions = errors.New("decoded object cannot be converted to DeleteOptions")

// readDeleteOptions reads a DELETE's options: from its body, in any group version that has them, or
// without a body from the query.
func readDeleteOptions(r *http.Request) (metav1.DeleteOptions, error) {
	body, err := readBody(r)
	if err != nil {
		return metav1.DeleteOptions{}, err
	}
	if len(body) == 0 {
		return deleteOptions(r.URL.Query())
	}
	media, err := mediaType(r)
	if err != nil {
		return metav1.DeleteOptions{}, err
	}
	if err := checkYAML(media, body); err != nil {
		return metav1.DeleteOptions{}, err
	}
	info, ok := runtime.SerializerInfoForMediaType(metainternalversion.Codecs.SupportedMediaTypes(), media)
	if !ok {
		return metav1.DeleteOptions{}, unsupportedMediaType(mediaJSON, mediaYAML, mediaProtobuf)
	}
	opts, kind := metav1.DeleteOptions{}, metav1.SchemeGroupVersion.WithKind("DeleteOptions")
	decoded, _, err := metainternalversion.Codecs.DecoderToVersion(info.Serializer, kind.GroupVersion()).Decode(body, &kind, &opts)
	if err != nil {
		return opts, apierrors.NewBadRequest(err.Error())
	}
	if decoded != runtime.Object(&opts) {
		return opts, apierrors.NewInternalError(errNotDeleteOptions)
	}
	return opts, nil
}
