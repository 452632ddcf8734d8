package guard_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/gateway/guard"
)

func request(host, path string, headers map[string]string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "https://"+host+path, nil)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

// TestCheck is T1 and T2: who may come in.
func TestCheck(t *testing.T) {
	with := func(more ...string) map[string]string {
		headers := map[string]string{"Authorization": "Bearer secret"}
		for i := 0; i < len(more); i += 2 {
			headers[more[i]] = more[i+1]
		}
		return headers
	}
	for name, c := range map[string]struct {
		host, path string
		headers    map[string]string
		want       func(error) bool
	}{
		"the token":                  {"127.0.0.1:6443", "/api", with(), nil},
		"another case of the scheme": {"127.0.0.1:6443", "/api", map[string]string{"Authorization": "bearer secret"}, nil},
		"IPv6":                       {"[::1]:6443", "/api", with(), nil},
		"a name":                     {"localhost:6443", "/api", with(), nil},
		"health without a token":     {"127.0.0.1:6443", "/healthz", nil, nil},
		"another program's request":  {"127.0.0.1:6443", "/api", with("Sec-Fetch-Site", "none"), nil},

		"no token":              {"127.0.0.1:6443", "/api", nil, apierrors.IsUnauthorized},
		"half a token":          {"127.0.0.1:6443", "/api", map[string]string{"Authorization": "Bearer secre"}, apierrors.IsUnauthorized},
		"a longer token":        {"127.0.0.1:6443", "/api", map[string]string{"Authorization": "Bearer secrets"}, apierrors.IsUnauthorized},
		"no scheme":             {"127.0.0.1:6443", "/api", map[string]string{"Authorization": "secret"}, apierrors.IsUnauthorized},
		"the token as a cookie": {"127.0.0.1:6443", "/api", map[string]string{"Cookie": "token=secret"}, apierrors.IsUnauthorized},
		"below an open path":    {"127.0.0.1:6443", "/healthz/../api", nil, apierrors.IsUnauthorized},

		"another host":                  {"evil.example:6443", "/api", with(), apierrors.IsForbidden},
		"another port":                  {"127.0.0.1:6444", "/api", with(), apierrors.IsForbidden},
		"no port":                       {"localhost", "/api", with(), apierrors.IsForbidden},
		"another host for an open path": {"evil.example:6443", "/healthz", nil, apierrors.IsForbidden},
		"a page of another origin":      {"127.0.0.1:6443", "/api", with("Origin", "https://evil.example"), apierrors.IsForbidden},
		"a page of this very origin":    {"127.0.0.1:6443", "/api", with("Origin", "https://127.0.0.1:6443"), apierrors.IsForbidden},
		"a page without an origin":      {"127.0.0.1:6443", "/api", with("Origin", "null"), apierrors.IsForbidden},
		"a page's picture":              {"127.0.0.1:6443", "/api", with("Sec-Fetch-Site", "cross-site"), apierrors.IsForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			err := guard.New("127.0.0.1:6443", "secret", "/healthz").Check(request(c.host, c.path, c.headers))
			if c.want == nil && err != nil || c.want != nil && !c.want(err) {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// TestAListenerOnAllAddresses is reached by the one that a connection was made to.
func TestAListenerOnAllAddresses(t *testing.T) {
	g := guard.New("[::]:6443", "secret")
	local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 6443}
	for host, want := range map[string]bool{
		"192.0.2.7:6443": true, "127.0.0.1:6443": true, "192.0.2.8:6443": false, "evil.example:6443": false, "192.0.2.7": false,
	} {
		r := request(host, "/api", map[string]string{"Authorization": "Bearer secret"})
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
		if err := g.Check(r); (err == nil) != want {
			t.Errorf("Host %s: %v", host, err)
		}
	}
}
