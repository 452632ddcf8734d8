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

const (
	// mediaJSON, mediaYAML and mediaProtobuf are the media types of objects, in the order of
	// preference.
	mediaJSON     = runtime.ContentTypeJSON
	mediaYAML     = runtime.ContentTypeYAML
	mediaProtobuf = runtime.ContentTypeProtobuf
)

// shape is what an object is converted to before it is written.
type shape string

// The values of the Accept parameter "as".
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
	// metaVersion is the version of meta.k8s.io of a Table or partial object.
	metaVersion string
	pretty      bool
}

// defaultForm is the form of errors if the client accepts no served form.
func defaultForm() form { return form{media: mediaJSON} }

// offers are the forms that an endpoint can answer in.
type offers struct {
	media  []string
	shapes []shape
}

// negotiate returns the first form that the client accepts and the endpoint offers, or a 406
// (upstream's NegotiateMediaTypeOptions).
func negotiate(r *http.Request, offer offers) (form, error) {
	pretty := wantsPretty(r)
	for _, clause := range accept.Clauses(r) {
		for _, media := range offer.media {
			if !clause.Covers(media) {
				continue
			}
			if chosen, ok := formFor(clause, media, offer.shapes); ok {
				chosen.pretty = pretty || clause.Params["pretty"] == "1"
				return chosen, nil
			}
		}
	}
	return defaultForm(), &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: accept.Refusal(offer.media...),
	}}
}

// formFor returns the form that a clause asks for, if it is offered.
func formFor(clause accept.Clause, media string, shapes []shape) (form, bool) {
	as := shape(clause.Params["as"])
	if as == asObject {
		return form{media: media}, true
	}
	version := clause.Params["v"]
	served := clause.Params["g"] == metav1.GroupName && (version == "v1" || version == "v1beta1")
	if !served || !slices.Contains(shapes, as) || as == asTable && media == mediaProtobuf {
		return form{}, false
	}
	return form{media: media, as: as, metaVersion: version}, true
}

// wantsPretty reports whether the answer is indented: the query says so, or the client is a tool
// that people use by hand.
func wantsPretty(r *http.Request) bool {
	query := r.URL.Query()
	if _, explicit := query["pretty"]; explicit {
		return isTrue(query, "pretty")
	}
	for _, tool := range []string{"curl", "Wget", "Mozilla/5.0"} {
		if strings.HasPrefix(r.UserAgent(), tool) {
			return true
		}
	}
	return false
}
