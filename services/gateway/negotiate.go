package gateway

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/services/gateway/accept"
)

// The media types that objects are read and written in, in the order of preference.
const (
	mediaJSON     = runtime.ContentTypeJSON
	mediaYAML     = runtime.ContentTypeYAML
	mediaProtobuf = runtime.ContentTypeProtobuf
)

// shape is what becomes of an object before it is written.
type shape string

// The shapes that a client may ask for with "as".
const (
	asObject      shape = ""
	asTable       shape = "Table"
	asPartial     shape = "PartialObjectMetadata"
	asPartialList shape = "PartialObjectMetadataList"
)

// form is how a client wants its answer.
type form struct {
	media string
	as    shape
	// meta is the version of meta.k8s.io in which a shape is written.
	meta   string
	pretty bool
}

// plain is the form of errors to clients that accept nothing that is served.
func plain() form { return form{media: mediaJSON} }

// offers are the forms in which an endpoint can answer.
type offers struct {
	media  []string
	shapes []shape
}

// negotiate is the first form that a client accepts and an endpoint offers (upstream's
// NegotiateMediaTypeOptions); a 406 when there is none.
func negotiate(r *http.Request, offer offers) (form, error) {
	pretty := prettyFor(r)
	for _, wanted := range accept.Clauses(r) {
		for _, media := range offer.media {
			if !wanted.Covers(media) {
				continue
			}
			if chosen, ok := shaped(wanted, media, offer.shapes); ok {
				chosen.pretty = pretty || wanted.Params["pretty"] == "1"
				return chosen, nil
			}
		}
	}
	return plain(), &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: accept.Refusal(offer.media...),
	}}
}

// shaped is media in the shape that a clause asks for, if that can be had.
func shaped(wanted accept.Clause, media string, shapes []shape) (form, bool) {
	as := shape(wanted.Params["as"])
	if as == asObject {
		return form{media: media}, true
	}
	version := wanted.Params["v"]
	served := wanted.Params["g"] == metav1.GroupName && (version == "v1" || version == "v1beta1")
	if !served || !slices.Contains(shapes, as) || as == asTable && media == mediaProtobuf {
		return form{}, false
	}
	return form{media: media, as: as, meta: version}, true
}

// prettyFor reports whether a person reads along: who says so, or uses a tool that
// people use by hand.
func prettyFor(r *http.Request) bool {
	query := r.URL.Query()
	if _, said := query["pretty"]; said {
		return truth(query, "pretty")
	}
	for _, tool := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(r.UserAgent(), tool) {
			return true
		}
	}
	return false
}
