// Package bus implements the cluster network: a hub for all processes, and a [Link] for every
// process except clients, which is its only path to the hub.
//
//	                client
//	                  |
//	  +------+-------hub-------+------+
//	  |      |        |        |      |
//	link   link     link     link   link      a cut is made here
//	  |      |        |        |      |
//	 n1     n2   apiserver controllers gateway
//
// Management connections go to the hub directly and are never cut. The state of faults and cuts is
// kept here, in the directory faultstate.
//
// The hub is an embedded server that knows every identity and its permissions
// (internal/bus/permissions.go), or an existing NATS server that its owner configures. The messages
// on the hub are not this package's concern.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"

	carrier "github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/homeport"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/internal/trouble"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/bus/faultstate"
)

// Addresses lists the URLs of a cluster network, for --bus.
type Addresses struct {
	// Hub is for clients, and for every process's management connection.
	Hub []string `json:"hub"`
	// Links maps each member (nodes, apiserver, controllers, gateway) to its URL.
	Links map[string]string `json:"links"`
}

// Config configures a cluster network.
type Config struct {
	// Nodes get a link each, as do the control-plane processes.
	Nodes []string
	// Credentials is the directory of seeds. Missing seeds of [Identities] are created, and every
	// identity with a seed may connect. Empty means an open hub.
	Credentials string
	// External are the URLs of a NATS server or cluster to use instead of an embedded hub. Links
	// connect to the first that answers.
	External []string
	// Host is the listen address of hub and links; empty means 127.0.0.1.
	Host string
	// Pinned holds addresses to reuse: what Ready returned in an earlier run, or addresses
	// configured beforehand. Only its ports are used for listening; its hosts are passed on to
	// Ready. All others get a free port.
	Pinned Addresses
	// MaxPayload of the hub in bytes; 0 means 8 MiB.
	MaxPayload int32
	// StateFile stores the fault state; empty keeps it in memory.
	StateFile string
	// Clock is the cluster's clock in this process, which the fault state sets. If nil, it shows
	// wall time until then.
	Clock *clock.Driver
	// Boot identifies this incarnation.
	Boot proto.Boot
	// History records changes of the fault state; nil records nothing.
	History *history.Recorder
	// Log receives refused clients and broken links; nil discards them.
	Log *slog.Logger
	// Ready is called once everything listens.
	Ready func(Addresses)
}

// withHosts returns a with the host names of pinned, because other machines may know this host by
// another name.
func (a Addresses) withHosts(pinned Addresses) Addresses {
	if len(pinned.Hub) > 0 {
		a.Hub = pinned.Hub
	}
	for member := range a.Links {
		if at, ok := pinned.Links[member]; ok {
			a.Links[member] = at
		}
	}
	return a
}

// Identities returns the identities of a cluster with these nodes.
func Identities(nodes []string) []proto.Identity {
	ids := []proto.Identity{proto.Admin, mgmt.Keeper, proto.Bus}
	for _, id := range []proto.Identity{proto.APIServer, proto.Controllers, proto.Gateway} {
		ids = append(ids, id, proto.Mgmt(string(id)))
	}
	for _, node := range nodes {
		ids = append(ids, NodeIdentities(node)...)
	}
	return ids
}

// NodeIdentities returns the identities of a node's two processes.
func NodeIdentities(node string) []proto.Identity {
	return []proto.Identity{proto.Node(node), proto.Mgmt("kubelet/" + node), proto.Mgmt("runtime/" + node)}
}

// Run runs the bus process. It returns when ctx ends, after all clients were disconnected, or with
// an error if it cannot listen.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		schedule, err := clock.NewSchedule(clock.Clock{}.Now(), 1)
		if err != nil {
			return fmt.Errorf("bus: %w", err)
		}
		cfg.Clock = clock.NewDriver(schedule)
	}
	hub, err := openHub(ctx, cfg)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	defer hub.close()
	listeners, err := listenLinks(ctx, cfg, hub.urls[0])
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	addresses := Addresses{Hub: hub.urls, Links: map[string]string{}}
	var links []*Link
	var parts []func(context.Context) error
	for _, at := range listeners {
		addresses.Links[at.member] = at.url
		link := NewLink(LinkConfig{Member: at.member, Dial: hub.dial, Clock: cfg.Clock.Clock(), Log: cfg.Log})
		links = append(links, link)
		parts = append(parts, link.Run, func(ctx context.Context) error { return link.Listen(ctx, at.listener) })
	}
	if len(cfg.External) == 0 {
		addresses = addresses.withHosts(cfg.Pinned)
	}
	switches := NewSwitchboard(links, cfg.Clock.Clock())
	parts = append(parts, switches.Run, func(ctx context.Context) error {
		return keepState(ctx, cfg, hub, target{switches, cfg.Clock, trouble.NewLog(cfg.History, trouble.FaultStateKinds()...)}, func() {
			if cfg.Ready != nil {
				cfg.Ready(addresses)
			}
		})
	})
	return daemon.Run(ctx, parts...)
}

// target is what the fault state controls in this process.
type target struct {
	switchboard *Switchboard
	clock       *clock.Driver
	troubles    *trouble.Log
}

func (m target) apply(b mgmt.FaultState) {
	began := m.troubles.Now()
	m.clock.Set(b.Clock)
	m.switchboard.Set(b.Cuts)
	m.troubles.Set(began, trouble.State{Clock: b.Clock, Members: b.Members, Faults: b.Faults, Cuts: b.Cuts})
}

// keepState runs the keeper of the fault state until ctx ends, on its own connection. An external
// hub may refuse the keeper's key; then the cluster has no management.
func keepState(ctx context.Context, cfg Config, hub hub, here target, ready func()) error {
	dial := carrier.Config{URLs: hub.urls, InProcess: hub.inProcess, Identity: mgmt.Keeper, Log: cfg.Log}
	var err error
	if cfg.Credentials != "" {
		if dial.Seed, err = carrier.LoadSeed(cfg.Credentials, mgmt.Keeper); err != nil {
			return err
		}
	}
	conn, err := carrier.Dial(ctx, dial)
	if errors.Is(err, carrier.ErrForbidden) {
		cfg.Log.WarnContext(ctx, "no management: the hub does not know its keys; see NATSConfig", "identity", mgmt.Keeper, "err", err)
		ready()
		<-ctx.Done()
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	keeper, err := faultstate.Open(ctx, faultstate.Config{
		Bus: conn, File: cfg.StateFile, Epoch: string(cfg.Boot), Members: partition.Members(cfg.Nodes), Log: cfg.Log,
		Schedule: here.clock.Schedule(), Clock: here.clock.Clock(), Apply: here.apply,
	})
	if err != nil {
		return err
	}
	inspected, err := mgmt.ListenInspect(ctx, mgmt.AgentConfig{
		Process: string(proto.Bus), Bus: conn, Inspect: here.inspector(cfg.Boot), Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	return daemon.Run(ctx, inspected, func(ctx context.Context) error { return keeper.Run(ctx, ready) })
}

// hub is the server that the links connect to.
type hub struct {
	urls []string
	dial func(context.Context) (net.Conn, error)
	// inProcess opens a connection to an embedded hub; nil for an external one.
	inProcess func() (net.Conn, error)
	close     func()
}

func openHub(ctx context.Context, cfg Config) (hub, error) {
	if len(cfg.External) > 0 {
		hosts, err := hostsOf(cfg.External)
		if err != nil {
			return hub{}, err
		}
		return hub{urls: cfg.External, dial: dialFirst(hosts), close: func() {}}, nil
	}
	own := carrier.ServerConfig{Host: cfg.Host, MaxPayload: cfg.MaxPayload, Log: cfg.Log}
	var err error
	if len(cfg.Pinned.Hub) > 0 {
		if own.Port, err = pinnedPort(cfg.Pinned.Hub[0]); err != nil {
			return hub{}, err
		}
	}
	if cfg.Credentials != "" {
		if _, err := carrier.WriteCredentials(cfg.Credentials, Identities(cfg.Nodes)...); err != nil {
			return hub{}, err
		}
		if own.Users, err = carrier.LoadUsers(cfg.Credentials); err != nil {
			return hub{}, err
		}
	}
	server, err := carrier.StartServer(ctx, own)
	if err != nil {
		return hub{}, err
	}
	return hub{
		urls:  []string{server.URL()},
		dial:  func(context.Context) (net.Conn, error) { return server.InProcessConn() },
		close: server.Close, inProcess: server.InProcessConn,
	}, nil
}

// linkListener is where a member's link listens.
type linkListener struct {
	member   string
	listener net.Listener
	url      string
}

// listenLinks opens the listeners of all links, or none.
func listenLinks(ctx context.Context, cfg Config, hubURL string) ([]linkListener, error) {
	var listeners []linkListener
	for _, member := range partition.Members(cfg.Nodes) {
		at, err := listenLink(ctx, cfg, member, hubURL)
		if err != nil {
			for _, opened := range listeners {
				err = errors.Join(err, opened.listener.Close())
			}
			return nil, fmt.Errorf("link of %s: %w", member, err)
		}
		listeners = append(listeners, at)
	}
	return listeners, nil
}

func listenLink(ctx context.Context, cfg Config, member, hubURL string) (linkListener, error) {
	port, err := pinnedPort(cfg.Pinned.Links[member])
	if err != nil {
		return linkListener{}, err
	}
	address, err := url.Parse(hubURL)
	if err != nil {
		return linkListener{}, fmt.Errorf("read hub URL: %w", err)
	}
	listener, err := homeport.Listen(ctx, cfg.Host, port)
	if err != nil {
		return linkListener{}, err
	}
	// The same scheme, user and password as the hub's, by another way.
	address.Host = listener.Addr().String()
	return linkListener{member: member, listener: listener, url: address.String()}, nil
}

// pinnedPort returns the port of an earlier URL; 0 if at is empty.
func pinnedPort(at string) (int, error) {
	if at == "" {
		return 0, nil
	}
	address, err := url.Parse(at)
	if err != nil {
		return 0, fmt.Errorf("read pinned address: %w", err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		return 0, fmt.Errorf("read pinned address %s: %w", at, err)
	}
	return port, nil
}

// defaultPort is NATS's default port.
const defaultPort = "4222"

func hostsOf(urls []string) ([]string, error) {
	hosts := make([]string, len(urls))
	for i, at := range urls {
		address, err := url.Parse(at)
		if err != nil || address.Hostname() == "" {
			return nil, fmt.Errorf("read bus URL %q: want nats://host:port", at)
		}
		port := address.Port()
		if port == "" {
			port = defaultPort
		}
		hosts[i] = net.JoinHostPort(address.Hostname(), port)
	}
	return hosts, nil
}

// dialFirst returns a function that connects to the first host that answers.
func dialFirst(hosts []string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var failed error
		for _, host := range hosts {
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", host)
			if err == nil {
				return conn, nil
			}
			failed = errors.Join(failed, err)
		}
		return nil, failed
	}
}
