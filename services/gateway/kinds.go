package gateway

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/clock"
)

// waitForKinds reports whether the gateway knows the defined kinds. It does a moment after its
// start. Requests that may be about one of them wait here.
func (g *gateway) waitForKinds(ctx context.Context) bool {
	select {
	case <-g.kinds.Filled():
		return true
	default:
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, readyTimeout)
	defer cancel()
	select {
	case <-g.kinds.Filled():
		return true
	case <-ctx.Done():
		return false
	}
}

// errKindsUnknown is a 503, so that clients retry: the kind may exist.
func errKindsUnknown() error {
	return apierrors.NewServiceUnavailable("the kinds that are defined here are not known yet")
}

// discoverAfterKinds delays discovery until the defined kinds are known: clients cache the answers
// for long.
func (g *gateway) discoverAfterKinds(kinds http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis") || strings.HasPrefix(r.URL.Path, "/openapi") {
			g.waitForKinds(r.Context()) // or those that are built in
		}
		kinds.ServeHTTP(w, r)
	})
}
