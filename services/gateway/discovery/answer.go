package discovery

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/gateway/accept"
)

// The media types of answers.
const (
	mediaJSON     = runtime.ContentTypeJSON
	mediaYAML     = runtime.ContentTypeYAML
	mediaProtobuf = runtime.ContentTypeProtobuf
)

// negotiateMedia returns the offered media type that the client prefers; empty if it accepts none.
// The first one is the default.
func negotiateMedia(r *http.Request, offered ...string) string {
	for _, clause := range accept.Clauses(r) {
		if clause.Params["as"] != "" {
			continue
		}
		for _, offer := range offered {
			if clause.Covers(offer) {
				return offer
			}
		}
	}
	return ""
}

// respond sends an object in the media type that the client wants, or a 406.
func respond(w http.ResponseWriter, r *http.Request, obj runtime.Object) {
	media := negotiateMedia(r, mediaJSON, mediaYAML, mediaProtobuf)
	if media == "" {
		notAcceptable(w, mediaJSON, mediaYAML, mediaProtobuf)
		return
	}
	w.Header().Set("Content-Type", media)
	writeObject(w, r, media, obj)
}

// writeObject writes an object. The content type has been set.
func writeObject(w http.ResponseWriter, r *http.Request, media string, obj runtime.Object) {
	data, err := encode(media, obj)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBytes(w, r, data)
}

func encode(media string, obj runtime.Object) ([]byte, error) {
	switch media {
	case mediaProtobuf:
		return encodeProtobuf(obj)
	case mediaYAML:
		return yaml.Marshal(obj)
	}
	data, err := json.Marshal(obj)
	return append(data, '\n'), err
}

// encodeProtobuf also encodes kinds that are never stored.
func encodeProtobuf(obj runtime.Object) ([]byte, error) {
	if message, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		raw, err := message.Marshal()
		if err != nil {
			return nil, err
		}
		gvk := obj.GetObjectKind().GroupVersionKind()
		document := runtime.Unknown{
			TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Raw: raw,
		}
		body, err := document.Marshal()
		return append([]byte("k8s\x00"), body...), err
	}
	return kinds.Encode(obj)
}

// writeBytes writes data with its ETag, or a 304 if the client has it already.
func writeBytes(w http.ResponseWriter, r *http.Request, data []byte) {
	tag := fmt.Sprintf("%q", fmt.Sprintf("%X", sha512.Sum512(data)))
	w.Header().Set("ETag", tag)
	w.Header().Add("Vary", "Accept")
	if matchesETag(r.Header.Get("If-None-Match"), tag) {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // the client may have left
	}
}

func matchesETag(wanted, tag string) bool {
	for one := range strings.SplitSeq(wanted, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

// respondJSON sends a value that is not an object, indented.
func respondJSON(w http.ResponseWriter, r *http.Request, value any) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	writeBytes(w, r, data)
}

func notAcceptable(w http.ResponseWriter, offered ...string) {
	http.Error(w, accept.Refusal(offered...), http.StatusNotAcceptable)
}
