package gateway

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podfall/podfall/services/gateway/guard"
)

// TestPanicEndsRequest: a panic ends only its own request.
func TestPanicEndsRequest(t *testing.T) {
	var log strings.Builder
	g := &gateway{
		cfg:   Config{Log: slog.New(slog.NewTextHandler(&log, nil))},
		guard: guard.New("127.0.0.1:1", "secret"), limiter: newLimiter(defaultLimits()), telemetry: newTelemetry(),
		discovery: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/halfway":
				w.WriteHeader(http.StatusOK)
				panic("halfway")
			case "/panic":
				panic("on purpose")
			}
		}),
	}
	server := httptest.NewUnstartedServer(g.newHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.Start()
	defer server.Close()
	ask := func(path string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "127.0.0.1:1"
		req.Header.Set("Authorization", "Bearer secret")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if code, err := ask("/panic"); err != nil || code != http.StatusInternalServerError {
		t.Errorf("a panic: %d %v", code, err)
	}
	if !strings.Contains(log.String(), "on purpose") || !strings.Contains(log.String(), "handler_test.go") {
		t.Errorf("the log does not say where: %s", log.String())
	}
	if code, err := ask("/halfway"); err == nil {
		t.Errorf("a panic in the middle of an answer: %d, want a broken connection", code)
	}
	if code, err := ask("/version"); err != nil || code != http.StatusOK {
		t.Errorf("the next request: %d %v", code, err)
	}
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	if g.limiter.running != 0 {
		t.Errorf("%d requests are counted in for ever", g.limiter.running)
	}
}
