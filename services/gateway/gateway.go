// Package gateway serves the Kubernetes REST API over HTTPS, for kubectl, client-go and other
// clients. It translates between HTTP and the bus. All decisions are the apiserver's.
//
//	TLS, HTTP/2 -> server.go      one listener, and how it ends
//	               guard/         Host, Origin, token: before anything else
//	               handler.go     dispatch: health, metrics, discovery, resources
//	               route.go       paths of the API
//	               negotiate.go   content negotiation
//	               verbs.go       from request to call, from answer to response
//	               watch.go       watches; stream.go shares them between clients
//	               logs.go        container logs
//	               reviews.go     access reviews: the admin may do everything
//	            -> podapi -> bus -> apiserver
//
// # Order
//
// A watch delivers events in the order of podapi.Client.Watch.
//
// # Blocking
//
// A client that does not read its watch is dropped, without an ERROR (WCH-34). It blocks no other
// client.
//
// # Errors
//
// Every refusal is a Status with upstream's code and reason. A panic ends only its own request.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/discovery"
	"github.com/podfall/podfall/services/gateway/guard"
)

// Config configures a gateway.
type Config struct {
	// Bus is the connection to the cluster, under the identity proto.Gateway. The caller closes it.
	Bus *bus.Conn
	// Listener accepts clients. Run closes it, unless it refuses the Config.
	Listener net.Listener
	// TLS holds the server's certificate; it is required.
	TLS *tls.Config
	// Token authenticates clients; it must not be empty.
	Token string
	// Clock is the cluster's time.
	Clock clock.Clock
	// Compat is the imitated release; zero means the default one.
	Compat proto.Compat
	// Boot is this incarnation.
	Boot proto.Boot
	// Processes answer for metrics beside the gateway's own; nil for none.
	Processes Processes
	// Faults are injected faults; nil for none.
	Faults *fault.Table
	// Seed decides how long watches without a timeout last.
	Seed uint64
	// Log is nil for none.
	Log *slog.Logger
	// Ready is called once, with the URL, before the first request is answered; it may be nil.
	Ready func(url string)
}

// Run serves until ctx ends. Then it ends watches, answers other requests for a few seconds, and
// returns nil.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := withDefaults(cfg)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	api := podapi.New(cfg.Bus, podapi.Config{
		Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log, Seed: cfg.Seed, Bookmark: progressInterval, Faults: cfg.Faults,
	})
	served := directory.New()
	g := &gateway{
		cfg:       cfg,
		api:       api,
		kinds:     served,
		guard:     guard.New(cfg.Listener.Addr().String(), cfg.Token, openPaths()...),
		limiter:   newLimiter(defaultLimits()),
		telemetry: newTelemetry(),
	}
	g.discovery = g.discoverAfterKinds(discovery.New(served, cfg.Compat))
	if err := g.serve(ctx); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// gateway serves all requests.
type gateway struct {
	cfg   Config
	api   *podapi.Client
	kinds *directory.Directory
	guard *guard.Guard
	// discovery says what is served.
	discovery http.Handler
	streams   *sharedWatches
	limiter   *limiter
	telemetry *telemetry
	// ending is closed when watches are to end.
	ending <-chan struct{}
}

// withDefaults checks a Config, and fills in optional fields.
func withDefaults(cfg Config) (Config, error) {
	switch {
	case cfg.Bus == nil, cfg.Listener == nil:
		return cfg, errors.New("want a bus and a listener")
	case cfg.Token == "":
		return cfg, errors.New("token: must not be empty, because any local program can reach the port")
	case cfg.TLS == nil || len(cfg.TLS.Certificates) == 0 && cfg.TLS.GetCertificate == nil:
		return cfg, errors.New("TLS: a certificate is required, because requests carry the token")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ready == nil {
		cfg.Ready = func(string) {}
	}
	if cfg.Compat.Release == "" {
		compat, err := proto.CompatFor(proto.DefaultRelease)
		if err != nil {
			return cfg, err
		}
		cfg.Compat = compat
	}
	return cfg, nil
}
