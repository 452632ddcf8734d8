package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNegotiate(t *testing.T) {
	offer := offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}, shapes: []shape{asTable, asPartial}}
	table := form{media: mediaJSON, as: asTable, metaVersion: "v1"}
	for accept, want := range map[string]form{
		"":                                    {media: mediaJSON},
		"*/*":                                 {media: mediaJSON},
		"application/*":                       {media: mediaJSON},
		"application/json":                    {media: mediaJSON},
		"application/yaml":                    {media: mediaYAML},
		"application/vnd.kubernetes.protobuf": {media: mediaProtobuf},
		"application/vnd.kubernetes.protobuf,application/json": {media: mediaProtobuf},
		"application/cbor,application/json":                    {media: mediaJSON},
		"text/html, application/yaml;q=0.5":                    {media: mediaYAML},
		"application/json;q=0.1,application/yaml;q=0.9":        {media: mediaYAML},
		"application/json;pretty=1":                            {media: mediaJSON, pretty: true},
		"application/json;as=Table;v=v1;g=meta.k8s.io":         table,
		// kubectl's
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json": table,
		// Lists of old servers come after, and are the answer when there is nothing better.
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json": {media: mediaJSON, as: asTable, metaVersion: "v1beta1"},
		"application/json;as=Table;v=v2;g=meta.k8s.io,application/json":      {media: mediaJSON},
		"application/json;as=Picture;v=v1;g=meta.k8s.io,application/json":    {media: mediaJSON},
		// client-go's metadata client
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json": {media: mediaProtobuf, as: asPartial, metaVersion: "v1"},
		// a Table has no protobuf
		"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io": table,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		if got, err := negotiate(r, offer); err != nil || got != want {
			t.Errorf("Accept %q: %+v, %v; want %+v", accept, got, err, want)
		}
	}
	for _, accept := range []string{"text/html", "image/*", "rubbish", "application/json;as=Picture;v=v1;g=meta.k8s.io"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		if got, err := negotiate(r, offer); err == nil || statusOf(err).Code != http.StatusNotAcceptable {
			t.Errorf("Accept %q: %+v, %v; want a 406", accept, got, err)
		}
	}
}

func TestPretty(t *testing.T) {
	for _, c := range []struct {
		query, agent string
		want         bool
	}{
		{"", "kubectl/v1.37.2", false},
		{"", "curl/8.0", true},
		{"?pretty=false", "curl/8.0", false},
		{"?pretty=true", "kubectl/v1.37.2", true},
		{"?pretty", "kubectl/v1.37.2", true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/"+c.query, nil)
		r.Header.Set("User-Agent", c.agent)
		if got := wantsPretty(r); got != c.want {
			t.Errorf("pretty for %s %s: %v, want %v", c.query, c.agent, got, c.want)
		}
	}
}

func TestFieldManager(t *testing.T) {
	for _, c := range []struct{ named, agent, want string }{
		{"me", "kubectl/v1", "me"},
		{"", "kubectl/v1.37.2 (linux/amd64)", "kubectl"},
		{"", "", ""},
		{"", "a\x00b\nc/1", "abc"},
		{"", strings.Repeat("é", 100), strings.Repeat("é", 64)},
	} {
		if got := fieldManager(c.named, c.agent); got != c.want {
			t.Errorf("manager(%q, %q): %q, want %q", c.named, c.agent, got, c.want)
		}
	}
}
