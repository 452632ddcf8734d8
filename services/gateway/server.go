package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
)

const (
	// headerTimeout, idleTimeout and maxHeader are the server's limits. None of them ends a watch:
	// handlers limit the duration of answers.
	headerTimeout = 30 * time.Second
	idleTimeout   = 3 * time.Minute
	maxHeader     = 64 << 10
	// maxStreams is how many requests one HTTP/2 connection may have in flight. A program with a
	// thousand watches has one connection.
	maxStreams = 4000
	// pingAfter is how long a connection may be silent before it is pinged.
	pingAfter = 30 * time.Second
	// drainTimeout is how long running requests may take at the end.
	drainTimeout = 5 * time.Second
	// flushTimeout is how long their last bytes may take.
	flushTimeout = 50 * time.Millisecond
)

// serve answers requests until ctx ends.
func (g *gateway) serve(ctx context.Context) error {
	g.ending = ctx.Done()
	shared := daemon.NewGroup(context.WithoutCancel(ctx))
	g.streams = newSharedWatches(g.api, shared)
	server := &http.Server{
		Handler:           g.newHandler(),
		TLSConfig:         g.cfg.TLS,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter},
		ErrorLog:          slog.NewLogLogger(g.cfg.Log.Handler(), slog.LevelDebug),
		// Requests outlive ctx by lastOrders.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	g.cfg.Ready("https://" + g.cfg.Listener.Addr().String())
	err := daemon.Run(ctx,
		func(ctx context.Context) error { return g.kinds.Follow(ctx, g.api) },
		func(context.Context) error { return server.ServeTLS(g.cfg.Listener, "", "") },
		func(ctx context.Context) error {
			<-ctx.Done()
			return g.shutDown(context.WithoutCancel(ctx), server)
		},
	)
	shared.Stop()
	return errors.Join(ignoreClosed(err), shared.Wait())
}

// shutDown waits for running requests, for a short time. (*http.Server).Shutdown alone would make
// every HTTP/2 connection wait for a second.
func (g *gateway) shutDown(ctx context.Context, server *http.Server) error {
	wall := clock.Clock{}
	limited, cancel := wall.Timeout(ctx, drainTimeout)
	defer cancel()
	g.limiter.drain(limited)
	farewell, cancel := wall.Timeout(ctx, flushTimeout)
	defer cancel()
	if server.Shutdown(farewell) == nil {
		return nil
	}
	return server.Close()
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
