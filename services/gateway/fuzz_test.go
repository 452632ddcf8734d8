package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzRequest reads arbitrary request heads: nothing panics, a route has a resource and a version,
// and the negotiated form was offered.
func FuzzRequest(f *testing.F) {
	f.Fuzz(func(t *testing.T, path, query, accept, agent string) {
		if to, ok := parseRoute(path); ok && (to.Version == "" && !strings.Contains(path, "//") || strings.Contains(to.name, "/")) {
			t.Errorf("routeOf(%q): %+v", path, to)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if opts, err := parseLogOptions(values); err == nil && opts.tail != nil && *opts.tail < 0 {
			t.Errorf("a tail of %d lines", *opts.tail)
		}
		_, _ = listOptions(values)
		_, _ = deleteOptions(values)
		if name := fieldManager("", agent); len(name) > 128 {
			t.Errorf("a manager of %d bytes", len(name))
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		offer := offers{media: []string{mediaJSON, mediaYAML}, shapes: []shape{asTable}}
		if chosen, err := negotiate(r, offer); err == nil && (!slices.Contains(offer.media, chosen.media) || chosen.as != asObject && chosen.as != asTable) {
			t.Errorf("%q got %+v", accept, chosen)
		}
	})
}

// FuzzAcceptsGzip: a client that names gzip anywhere gets it, unless its weight is 0.
func FuzzAcceptsGzip(f *testing.F) {
	f.Fuzz(func(t *testing.T, header string) {
		reads := func(headers ...string) bool {
			return acceptsGzip(&http.Request{Header: http.Header{"Accept-Encoding": headers}})
		}
		parts := strings.Split(header, ",")
		if got, want := reads(header), slices.ContainsFunc(parts, func(part string) bool { return reads(part) }); got != want || got != reads(parts...) {
			t.Errorf("%q: %v, but of its parts %v", header, got, want)
		}
		if !strings.Contains(header, "gzip") && reads(header) {
			t.Errorf("%q names no gzip", header)
		}
		if reads(header) && !reads(header+", gzip;q=0") {
			t.Errorf("%q is read no more when something is added", header)
		}
	})
}
