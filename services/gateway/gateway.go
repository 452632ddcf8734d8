// Package gateway is the cluster's HTTPS door, for kubectl, client-go and whatever else
// speaks the Kubernetes REST API. It translates between that and the bus, and decides
// nothing: what a request means is the apiserver's to say.
//
//	TLS, HTTP/2 -> server.go      one listener, and how it ends
//	               guard/         Host, Origin, token: before anything else
//	               handler.go     what a path is: health, metrics, discovery, a resource
//	               route.go       a path of the API, taken apart
//	               negotiate.go   what the client wants to read
//	               verbs.go       a request becomes a call, its answer a response
//	               watch.go       a watch; stream.go shares what many watch
//	               logs.go        what a container has written
//	               reviews.go     who am I, may I: the admin may
//	            -> podapi -> bus -> apiserver
//
// # Order
//
// What a watch delivers is in the order of podapi.Client.Watch.
//
// # Blocking
//
// A client that does not read its watch is dropped, without an ERROR (WCH-34); it blocks
// nobody else.
//
// # Errors
//
// Every refusal is a Status with upstream's code and reason. A panic ends the request that
// it happened in.
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

// Config says what a gateway is a door to, and for whom.
type Config struct {
	// Bus is the connection to the cluster, under the identity proto.Gateway. It stays
	// the caller's.
	Bus *bus.Conn
	// Listener is where clients come in; Run closes it, unless it refuses the Config.
	Listener net.Listener
	// TLS holds the certificate that clients are shown; it is required.
	TLS *tls.Config
	// Token is what clients authenticate themselves with; it may not be empty.
	Token string
	// Clock is the cluster's time.
	Clock clock.Clock
	// Compat is the release that is imitated; the zero value is the default one.
	Compat proto.Compat
	// Boot is this incarnation.
	Boot proto.Boot
	// Processes are those whose metrics are told beside the gateway's own; nil for none.
	Processes Processes
	// Faults are what goes wrong on purpose; nil is nothing.
	Faults *fault.Table
	// Seed decides how long watches last that do not say.
	Seed uint64
	// Log is nil for none.
	Log *slog.Logger
	// Ready is called once, with the URL, when requests are about to be answered; it may
	// be nil.
	Ready func(url string)
}

// Run serves until ctx ends, and then returns nil once watches have been ended and other
// requests answered, or given up after a few seconds.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := complete(cfg)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	api := podapi.New(cfg.Bus, podapi.Config{
		Clock: cfg.Clock, Boot: cfg.Boot, Log: cfg.Log, Seed: cfg.Seed, Bookmark: progress, Faults: cfg.Faults,
	})
	served := directory.New()
	g := &gateway{
		cfg:    cfg,
		api:    api,
		kinds:  served,
		guard:  guard.New(cfg.Listener.Addr().String(), cfg.Token, openPaths()...),
		load:   newLoad(defaultLimits()),
		counts: newTelemetry(),
	}
	g.discovery = g.telling(discovery.New(served, cfg.Compat))
	if err := g.serve(ctx); err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	return nil
}

// gateway is what every request sees.
type gateway struct {
	cfg   Config
	api   *podapi.Client
	kinds *directory.Directory
	guard *guard.Guard
	// discovery says what is served.
	discovery http.Handler
	streams   *streams
	load      *load
	counts    *telemetry
	// ending is closed when watches are to end.
	ending <-chan struct{}
}

// complete checks a Config, and fills in what may be left out.
func complete(cfg Config) (Config, error) {
	switch {
	case cfg.Bus == nil, cfg.Listener == nil:
		return cfg, errors.New("want a bus and a listener")
	case cfg.Token == "":
		return cfg, errors.New("token: want one, because whoever reaches the port may try")
	case cfg.TLS == nil || len(cfg.TLS.Certificates) == 0 && cfg.TLS.GetCertificate == nil:
		return cfg, errors.New("TLS: want a certificate, because a token is not for everyone's eyes")
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
