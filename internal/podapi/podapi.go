// Package podapi is a client of the API over the bus: the verbs on single objects,
// lists and watches, and a local copy of a selection that keeps itself up to date.
// Start reading here; call.go sends one request, watch.go and reader.go keep one watch
// alive, follow.go keeps one copy.
//
// # Errors
//
// What the apiserver refuses comes back as it said it, for apierrors.IsNotFound and its
// like. A call that found nobody to answer it ends, after [Config].Timeout, with a
// ServiceUnavailable or a Timeout of the same family. A caller whose context has ended
// gets that context's error, wrapped.
//
// # Repetition
//
// A request that got no answer is sent again under the same operation id, which the
// apiserver carries out once. Nothing is sent again after the call's deadline.
//
// # Order
//
// A watch delivers each change of its selection once, in revision order, over any
// number of interruptions; or it ends. See [Client.Watch].
//
// # Blocking
//
// A consumer that does not read holds up its own watch and nothing else.
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

// Config is what a client may be told. Its zero value works.
type Config struct {
	// Clock is the cluster's time.
	Clock clock.Clock
	// Boot is the incarnation of the process that asks, by which the apiserver
	// refuses an older one.
	Boot proto.Boot
	// Timeout is how long one call may take in cluster time, sending again
	// included; 30 s when zero. On the wall it is never more than that, however slow
	// the cluster's clock, and never less than 2 s, however fast.
	Timeout time.Duration
	// Warn receives the warnings that come with an answer; nil drops them.
	Warn func(text string)
	// Operation names a call: 1 to 64 printable characters, never the same twice.
	// Nil draws 128 random bits.
	Operation func() string
	// Log is nil for none.
	Log *slog.Logger
	// Heartbeat is how often the apiserver speaks on an idle watch; 1 s when zero.
	// Three of them without a word make a watch resume.
	Heartbeat time.Duration
	// Bookmark is how often a watch that allows bookmarks gets one, in cluster time;
	// 1 min when zero, and never more often than Heartbeat.
	Bookmark time.Duration
	// Seed decides the client's own dice: how long a watch lasts and how a
	// back-off is spread.
	Seed uint64
	// Faults are asked at api.request and watch.deliver, which know this client by the name
	// of Speaker, or by its identity on the bus.
	Faults  *fault.Table
	Speaker string
	// History is told what watches hand over; nil for nobody.
	History *history.Recorder
}

// The defaults of Config.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultHeartbeat = time.Second
	DefaultBookmark  = time.Minute
)

// leastTimeout is the least of the wall's time that a call gets: a fast clock makes no
// machine faster.
const leastTimeout = 2 * time.Second

// Client speaks to the apiserver. It is safe for concurrent use, holds no goroutine of
// its own, and needs no closing; close the connection after the last watch has ended.
type Client struct {
	link link
	cfg  Config
	dice *dice
	// watches counts those that were begun.
	watches *atomic.Uint64
}

// New is a client over conn, which stays the caller's.
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
	return &Client{link: l, cfg: cfg, dice: newDice(cfg.Seed), watches: &atomic.Uint64{}}
}

// As is the client as another speaker: faults tell the two apart.
func (c *Client) As(speaker string) *Client {
	other := *c
	other.cfg.Speaker = speaker
	return &other
}

// Target is what a call is about: one object, or all of a kind.
type Target struct {
	// Kind is the row of the table of kinds; its version is the one asked for.
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

// String is the target as errors name it: "pods default/web".
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
