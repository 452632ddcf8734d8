package gateway

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// clause is one media range of an Accept header.
type clause struct {
	media  string
	params map[string]string
	weight float64
}

// clauses are the ranges of an Accept header, the most wanted first. What cannot be read
// is left out.
func clauses(accept string) []clause {
	var all []clause
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			weight = q
		}
		all = append(all, clause{media, params, weight})
	}
	slices.SortStableFunc(all, func(a, b clause) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	return all
}

// offers are the forms in which an endpoint can answer.
type offers struct {
	media  []string
	shapes []shape
}

// negotiate is the first form that a client accepts and an endpoint offers (upstream's
// NegotiateMediaTypeOptions); a 406 when there is none.
func negotiate(r *http.Request, offer offers) (form, error) {
	pretty := prettyFor(r)
	accept := r.Header.Get("Accept")
	if accept == "" {
		return form{media: offer.media[0], pretty: pretty}, nil
	}
	for _, wanted := range clauses(accept) {
		for _, media := range offer.media {
			if !wanted.covers(media) {
				continue
			}
			if chosen, ok := wanted.shaped(media, offer.shapes); ok {
				chosen.pretty = pretty || wanted.params["pretty"] == "1"
				return chosen, nil
			}
		}
	}
	return plain(), &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(offer.media, ", "),
	}}
}

func (c clause) covers(media string) bool {
	if c.media == "*/*" || c.media == media {
		return true
	}
	kind, ok := strings.CutSuffix(c.media, "/*")
	return ok && strings.HasPrefix(media, kind+"/")
}

// shaped is media in the shape that the clause asks for, if that can be had.
func (c clause) shaped(media string, shapes []shape) (form, bool) {
	as := shape(c.params["as"])
	if as == asObject {
		return form{media: media}, true
	}
	version := c.params["v"]
	served := c.params["g"] == metav1.GroupName && (version == "v1" || version == "v1beta1")
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
