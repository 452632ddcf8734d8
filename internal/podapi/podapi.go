// Package podapi is a client of the API over the bus. It provides the verbs on single objects,
// lists, watches, and local copies of a selection that keep themselves up to date. Start reading
// here. File call.go sends one request, watch.go and reader.go keep one watch running, follow.go
// maintains one copy.
//
// # Errors
//
// The apiserver's refusals are returned as they are, for apierrors.IsNotFound and similar
// functions. If no answer comes within [Config].Timeout, the call fails with a ServiceUnavailable
// or Timeout error of the same family. If the caller's context ends, the call returns the context's
// error, wrapped.
//
// # Retries
//
// A request without an answer is sent again under the same operation id, which the apiserver
// carries out once. Nothing is sent after the call's deadline.
//
// # Order
//
// A watch delivers each change of its selection once, in revision order, over any number of
// interruptions; or it ends. See [Client.Watch].
//
// # Blocking
//
// A consumer that does not read blocks its own watch and nothing else.
package podapi

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Config configures a client. The zero value works.
type Config struct {
	// Clock is the cluster's clock.
	Clock clock.Clock
	// Boot is the incarnation of the calling process. The apiserver refuses requests of an older
	// one.
	Boot proto.Boot
	// Timeout limits one call, retries included, in cluster time; 30 s if zero. In wall time the
	// limit is at most that long, however slow the cluster's clock, and at least 2 s, however fast.
	Timeout time.Duration
	// Warn receives the warnings of answers; nil drops them.
	Warn func(text string)
	// Operation returns a new operation id: 1 to 64 printable characters, never the same twice. If
	// it is nil, ids are 128 random bits.
	Operation func() string
	// Log may be nil.
	Log *slog.Logger
	// Heartbeat is how often the apiserver sends on an idle watch; 1 s if zero. After three
	// intervals without data a watch reconnects.
	Heartbeat time.Duration
	// Bookmark is the interval of bookmarks in cluster time, for watches that allow them; 1 min if
	// zero, and never shorter than Heartbeat.
	Bookmark time.Duration
	// Seed seeds the client's random numbers, for watch durations and back-off jitter.
	Seed uint64
	// Faults are applied at api.request and watch.deliver. They know this client as ClientName, or
	// by its bus identity.
	Faults     *fault.Table
	ClientName string
	// History records what watches deliver; nil for none.
	History *history.Recorder
}

// The defaults of Config.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultHeartbeat = time.Second
	DefaultBookmark  = time.Minute
)

// minTimeout is the least wall time of a call: a fast clock makes no machine faster.
const minTimeout = 2 * time.Second

// Client calls the apiserver. It is safe for concurrent use, owns no goroutine, and needs no
// closing. Close its connection after the last watch has ended.
type Client struct {
	link link
	cfg  Config
	rng  *rng
	// watches counts the watches begun.
	watches *atomic.Uint64
}

// New returns a client over conn. The caller keeps ownership of conn.
func New(conn *bus.Conn, cfg Config) *Client { return newClient(busLink{conn}, cfg) }

func newClient(l link, cfg Config) *Client {
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = DefaultHeartbeat
	}
	if cfg.Bookmark <= 0 {
		cfg.Bookmark = DefaultBookmark
	}
	if cfg.Operation == nil {
		cfg.Operation = randomOperation
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{link: l, cfg: cfg, rng: newRNG(cfg.Seed), watches: &atomic.Uint64{}}
}

// WithName returns a copy of the client with another client name for faults.
func (c *Client) WithName(speaker string) *Client {
	other := *c
	other.cfg.ClientName = speaker
	return &other
}

// Target is the object, or the collection of objects, that a call concerns.
type Target struct {
	// Kind is the row of the table of kinds; its version is the requested one.
	Kind kinds.Kind
	// Namespace is empty for cluster-scoped kinds and for all namespaces.
	Namespace string
	// Name is empty for a collection.
	Name string
	// Subresource is "status", "binding", "eviction", "scale" or empty.
	Subresource string
}

// check refuses a target that no object has, before its parts become a subject.
func (t Target) check() error {
	return cmp.Or(
		proto.CheckName("resource", t.Kind.GroupResource().String()), proto.CheckName("subresource", t.Subresource),
		proto.CheckName("namespace", t.Namespace), proto.CheckName("name", t.Name),
	)
}

// String returns the target as error messages name it: "pods default/web".
func (t Target) String() string {
	text := t.Kind.GroupResource().String()
	if t.Subresource != "" {
		text += "/" + t.Subresource
	}
	switch {
	case t.Namespace != "" && t.Name != "":
		return text + " " + t.Namespace + "/" + t.Name
	case t.Namespace != "" || t.Name != "":
		return text + " " + t.Namespace + t.Name
	}
	return text
}

func randomOperation() string {
	var entropy [16]byte
	_, _ = rand.Read(entropy[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(entropy[:])
}
