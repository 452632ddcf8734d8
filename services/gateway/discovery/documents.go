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

const (
	// mediaOpenAPI2 is OpenAPI 2 in protobuf. mediaOpenAPI2Old is its name from older clients; it
	// is not a valid media type.
	mediaOpenAPI2    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaOpenAPI2Old = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// openAPIGroup returns a group and version as the OpenAPI documents need it.
func (s *snapshot) openAPIGroup(list metav1.APIResourceList) (openapi.Group, error) {
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

// serveOpenAPI2 serves GET /openapi/v2. Clients that know OpenAPI 3 rarely request it. Building the
// document takes some 80 MB for a moment. The memory is returned to the system, and documents are
// built one after the other.
func (h *handler) serveOpenAPI2(now *snapshot, w http.ResponseWriter, r *http.Request) {
	media := negotiateMedia(r, mediaJSON, mediaOpenAPI2, mediaOpenAPI2Old)
	if media == "" {
		notAcceptable(w, mediaJSON, mediaOpenAPI2)
		return
	}
	if media != mediaJSON {
		media = mediaOpenAPI2
	}
	document, err := h.buildOpenAPI2(r.Context(), now, media)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", media)
	writeBytes(w, r, document)
}

// buildOpenAPI2 builds the document in a media type. It waits for other builds.
func (h *handler) buildOpenAPI2(ctx context.Context, now *snapshot, media string) ([]byte, error) {
	select {
	case h.building <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-h.building }()
	defer debug.FreeOSMemory()
	var groups []openapi.Group
	for _, list := range now.lists {
		group, err := now.openAPIGroup(list)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group)
	}
	document, err := h.definitions.V2(h.release, groups)
	if err == nil && media != mediaJSON {
		document, err = openAPI2ToProtobuf(document)
	}
	return document, err
}

func openAPI2ToProtobuf(document []byte) ([]byte, error) {
	parsed, err := openapiv2.ParseDocument(document)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return protobuf.MarshalOptions{Deterministic: true}.Marshal(parsed)
}

// serveOpenAPI3Index serves GET /openapi/v3: the URLs of the documents. Each URL changes with its
// document.
func (h *handler) serveOpenAPI3Index(now *snapshot, w http.ResponseWriter, r *http.Request) {
	type entry struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for _, list := range now.lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		path := pathOf(gv)
		paths[path[1:]] = entry{"/openapi/v3" + path + "?hash=" + h.documentHash(now, list)}
	}
	respondJSON(w, r, map[string]any{"paths": paths})
}

// documentHash hashes what a document is built from.
func (h *handler) documentHash(now *snapshot, list metav1.APIResourceList) string {
	resources, _ := json.Marshal(list) // strings and booleans: cannot fail
	key := joinKey(h.release, h.fingerprint(), string(resources))
	for _, kind := range now.definitions[list.GroupVersion] {
		spec, _ := json.Marshal(kind.crd.Spec) // came from JSON: cannot fail
		key = joinKey(key, string(spec))
	}
	return fmt.Sprintf("%X", sha512.Sum512([]byte(key)))
}

// fingerprint changes with the definitions and with the program that builds the documents: kubectl
// caches on disk by hash.
func fingerprint() string {
	build := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		build = info.String()
	}
	return joinKey(openapi.Fingerprint(), build)
}

// serveOpenAPI3 serves GET /openapi/v3/api/v1 and /openapi/v3/apis/GROUP/VERSION. An answer to a
// request with the hash may be cached for ever.
func (h *handler) serveOpenAPI3(now *snapshot, w http.ResponseWriter, r *http.Request) {
	list, ok := now.resourceList(requestedVersion(r))
	if !ok {
		notFound(w)
		return
	}
	if negotiateMedia(r, mediaJSON) == "" {
		notAcceptable(w, mediaJSON)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		current := h.documentHash(now, list)
		if hash != current {
			http.Redirect(w, r, "/openapi/v3"+pathOf(requestedVersion(r))+"?hash="+current, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
	}
	group, err := now.openAPIGroup(list)
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
	writeBytes(w, r, document)
}
