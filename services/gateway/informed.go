package gateway

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/clock"
)

// informed reports whether the gateway has heard which kinds are defined, which it has a moment
// after its start. A request that may be about one of them waits for that.
func (g *gateway) informed(ctx context.Context) bool {
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

// errUnfilled is a 503, for clients to come back: whether there is such a kind is not known.
func errUnfilled() error {
	return apierrors.NewServiceUnavailable("the kinds that are defined here are not known yet")
}

// telling is discovery that waits for the kinds that are defined: clients remember for long
// what they are told.
func (g *gateway) telling(kinds http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis") || strings.HasPrefix(r.URL.Path, "/openapi") {
			g.informed(r.Context()) // or those that are built in
		}
		kinds.ServeHTTP(w, r)
	})
}
