package discovery

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	protobuf "google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/openapi"
)

// The media types of OpenAPI 2 in protobuf: as clients ask for it, and as they asked before
// names of media types were taken seriously.
const (
	mediaOpenAPI2    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaOpenAPI2Old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// describe is a group and version as the OpenAPI documents take it.
func (s *served) describe(list metav1.APIResourceList) (openapi.Group, error) {
	group := openapi.Group{APIResourceList: list}
	for _, kind := range s.definitions[list.GroupVersion] {
		models, err := openapi.FromCRD(kind.crd, kind.Version)
		if err != nil {
			return group, err
		}
		if group.Custom == nil {
			group.Custom = openapi.Models{}
		}
		maps.Copy(group.Custom, models)
	}
	return group, nil
}

// openAPI2 is GET /openapi/v2. Clients that know OpenAPI 3 hardly ask for it. Making it takes
// some eighty megabytes that nobody needs a moment later, so that they are given back, and
// one is made after the other.
func (h *handler) openAPI2(now *served, w http.ResponseWriter, r *http.Request) {
	media := chosen(r, mediaJSON, mediaOpenAPI2, mediaOpenAPI2Old)
	if media == "" {
		notAcceptable(w, mediaJSON, mediaOpenAPI2)
		return
	}
	if media != mediaJSON {
		media = mediaOpenAPI2
	}
	document, err := h.makeOpenAPI2(r.Context(), now, media)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", media)
	sendBytes(w, r, document)
}

// makeOpenAPI2 makes the document in a media type, when no other is being made.
func (h *handler) makeOpenAPI2(ctx context.Context, now *served, media string) ([]byte, error) {
	select {
	case h.making <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-h.making }()
	defer debug.FreeOSMemory()
	var groups []openapi.Group
	for _, list := range now.lists {
		group, err := now.describe(list)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	document, err := h.definitions.V2(h.release, groups)
	if err == nil && media != mediaJSON {
		document, err = inProtobuf(document)
	}
	return document, err
}

func inProtobuf(document []byte) ([]byte, error) {
	parsed, err := openapiv2.ParseDocument(document)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return protobuf.MarshalOptions{Deterministic: true}.Marshal(parsed)
}

// openAPI3Index is GET /openapi/v3: where the documents are, each under a name that changes
// with its content.
func (h *handler) openAPI3Index(now *served, w http.ResponseWriter, r *http.Request) {
	type entry struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for _, list := range now.lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		path := pathOf(gv)
		paths[path[1:]] = entry{"/openapi/v3" + path + "?hash=" + h.hash(now, list)}
	}
	answerJSON(w, r, map[string]any{"paths": paths})
}

// hash names the content of a document by what it is made from.
func (h *handler) hash(now *served, list metav1.APIResourceList) string {
	said, _ := json.Marshal(list) // strings and booleans: cannot fail
	key := joined(h.release, h.fingerprint(), string(said))
	for _, kind := range now.definitions[list.GroupVersion] {
		spec, _ := json.Marshal(kind.crd.Spec) // came from JSON: cannot fail
		key = joined(key, string(spec))
	}
	return fmt.Sprintf("%X", sha512.Sum512([]byte(key)))
}

// fingerprint changes with the definitions and with the program that makes documents of them:
// kubectl keeps on disk what it has fetched under a hash.
func fingerprint() string {
	build := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		build = info.String()
	}
	return joined(openapi.Fingerprint(), build)
}

// openAPI3 is GET /openapi/v3/api/v1 and /openapi/v3/apis/GROUP/VERSION. A document that was
// asked for under its hash may be kept for ever.
func (h *handler) openAPI3(now *served, w http.ResponseWriter, r *http.Request) {
	list, ok := now.list(asked(r))
	if !ok {
		notFound(w)
		return
	}
	if chosen(r, mediaJSON) == "" {
		notAcceptable(w, mediaJSON)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		current := h.hash(now, list)
		if hash != current {
			http.Redirect(w, r, "/openapi/v3"+pathOf(asked(r))+"?hash="+current, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
	}
	group, err := now.describe(list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	document, err := h.definitions.V3(h.release, group)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", mediaJSON)
	sendBytes(w, r, document)
}
