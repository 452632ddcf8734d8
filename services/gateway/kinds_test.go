package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/services/gateway/guard"
)

// defined is an apiserver without definitions.
type defined struct{}

func (defined) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{ResourceVersion: "1"}, nil
}

// TestRequestBeforeKindsAreKnown waits for the defined kinds before it answers that a kind does not
// exist.
func TestRequestBeforeKindsAreKnown(t *testing.T) {
	for name, row := range map[string]struct {
		path   string
		filled time.Duration // after the request
		code   int
		took   time.Duration
	}{
		"known by then":         {"/apis/example.com/v1/widgets", time.Second, http.StatusNotFound, time.Second},
		"not known by then":     {"/apis/example.com/v1/widgets", time.Hour, http.StatusServiceUnavailable, readyTimeout},
		"discovery":             {"/apis", time.Second, http.StatusOK, time.Second},
		"discovery, too late":   {"/apis", time.Hour, http.StatusOK, readyTimeout},
		"what is always served": {"/version", time.Hour, http.StatusOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gateway{
					cfg: Config{Log: slog.New(slog.DiscardHandler)}, kinds: directory.New(),
					guard: guard.New("127.0.0.1:1", "secret"), limiter: newLimiter(defaultLimits()), telemetry: newTelemetry(),
				}
				g.discovery = g.discoverAfterKinds(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
				timer := time.AfterFunc(row.filled, func() {
					if err := g.kinds.Load(t.Context(), defined{}); err != nil {
						t.Error(err)
					}
				})
				defer timer.Stop()
				r := httptest.NewRequest(http.MethodGet, "https://127.0.0.1:1"+row.path, nil)
				r.Header.Set("Authorization", "Bearer secret")
				w, began := httptest.NewRecorder(), time.Now()
				g.newHandler().ServeHTTP(w, r)
				if took := time.Since(began); w.Code != row.code || took != row.took {
					t.Errorf("%d after %v, want %d after %v: %s", w.Code, took, row.code, row.took, w.Body)
				}
			})
		})
	}
}
