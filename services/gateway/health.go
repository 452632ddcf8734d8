package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// openPaths need no token, so that the gateway's parent process can check its health.
func openPaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

func isHealthPath(path string) bool {
	return slices.ContainsFunc(openPaths(), func(open string) bool {
		return path == open || strings.HasPrefix(path, open+"/")
	})
}

// readyTimeout is how long, in wall-clock time, the apiserver may take to answer and to list the
// defined kinds.
const readyTimeout = 3 * time.Second

// serveHealth serves the health endpoints. readyz also checks that the apiserver answers and the
// defined kinds are known.
func (g *gateway) serveHealth(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return notAllowed()
	}
	endpoint, check, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	lines, verdict, code := "[+]ping ok\n", "ok", http.StatusOK
	if endpoint == "readyz" && check != "ping" {
		more, ready := g.checkReady(r.Context())
		if lines += more; !ready {
			verdict, code = lines+"readyz check failed", http.StatusInternalServerError
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	if _, verbose := r.URL.Query()["verbose"]; verbose && code == http.StatusOK {
		fmt.Fprintf(w, "%s%s check passed\n", lines, endpoint)
		return nil
	}
	fmt.Fprint(w, verdict)
	return nil
}

// checkReady returns one line per check, and whether all succeeded.
func (g *gateway) checkReady(ctx context.Context) (lines string, all bool) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, readyTimeout)
	defer cancel()
	namespaces, _ := kinds.ByResource("namespaces")
	if _, err := g.api.Get(ctx, podapi.Target{Kind: namespaces, Name: corev1.NamespaceDefault}, metav1.GetOptions{}); err != nil {
		return "[-]apiserver failed: it does not answer\n", false
	}
	if !g.waitForKinds(ctx) {
		return "[+]apiserver ok\n[-]kinds failed: those that are defined are not known yet\n", false
	}
	return "[+]apiserver ok\n[+]kinds ok\n", true
}
