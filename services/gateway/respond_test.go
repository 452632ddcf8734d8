package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/discovery"
	"github.com/podfall/podfall/services/gateway/guard"
)

// TestContentEncoding: an answer is compressed if and only if its header says so, and only for
// clients that accept gzip.
func TestContentEncoding(t *testing.T) {
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{
		guard: guard.New("127.0.0.1:1", "secret"), limiter: newLimiter(defaultLimits()), telemetry: newTelemetry(),
		discovery: discovery.New(directory.New(), compat), cfg: Config{Log: slog.New(slog.DiscardHandler)},
	}
	large := &corev1.ConfigMap{Data: map[string]string{"x": strings.Repeat("x", 2*minGzipSize)}}
	for _, accepted := range []string{"", "identity", "gzip;q=0", "br, gzip; q=0.0", "gzip", "deflate, gzip, br, zstd", "br;q=1.0, gzip;q=0.8"} {
		reads := strings.HasPrefix(accepted, "gzip") && accepted != "gzip;q=0" || strings.Contains(accepted, ", gzip,") || strings.HasSuffix(accepted, "q=0.8")
		for _, path := range []string{"/openapi/v2", "/openapi/v3/api/v1", "/api/v1", "object"} {
			r := httptest.NewRequest(http.MethodGet, "https://127.0.0.1:1/"+strings.TrimPrefix(path, "/"), nil)
			r.Header.Set("Authorization", "Bearer secret")
			r.Header.Set("Accept-Encoding", accepted)
			w := httptest.NewRecorder()
			if path != "object" {
				g.newHandler().ServeHTTP(w, r)
			} else if err := respond(w, r, http.StatusOK, large, defaultForm()); err != nil {
				t.Fatal(err)
			}
			says, is := w.Header().Get("Content-Encoding") == "gzip", bytes.HasPrefix(w.Body.Bytes(), []byte("\x1f\x8b"))
			if w.Code != http.StatusOK || says != is || is && !reads || path == "object" && is != reads {
				t.Errorf("%s, accepting %q: %d, says %v, is %v, reads %v", path, accepted, w.Code, says, is, reads)
			}
		}
	}
}
