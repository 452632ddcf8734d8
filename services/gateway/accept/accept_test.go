package accept_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podfall/podfall/services/gateway/accept"
)

func TestClauses(t *testing.T) {
	const oldOpenAPI = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	for header, want := range map[string]string{
		"":                                    "*/*",
		"application/json":                    "application/json",
		"text/plain;q=0.2, application/json":  "application/json text/plain",
		"a/a;q=0.5,b/b;q=0.5":                 "a/a b/b",
		"application/json;as=Table;v=v1":      "application/json",
		oldOpenAPI + ",application/*;q=0.001": oldOpenAPI + " application/*",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if header != "" {
			r.Header.Set("Accept", header)
		}
		var got []string
		for _, clause := range accept.Clauses(r) {
			got = append(got, clause.Media)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Accept %q: %v, want %s", header, got, want)
		}
	}
}

func TestCovers(t *testing.T) {
	for media, want := range map[string]bool{
		"*/*": true, "application/*": true, "application/json": true,
		"app/*": false, "application/yaml": false, "text/*": false, "application/": false,
	} {
		if got := (accept.Clause{Media: media}).Covers("application/json"); got != want {
			t.Errorf("%s covers application/json: %v, want %v", media, got, want)
		}
	}
}
