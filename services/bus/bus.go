// Package bus is the cluster network as a process: a hub that everyone talks over, and
// a [Link] for each node, which is the only way from that node to the hub.
//
//	apiserver  controllers  gateway  client
//	     |          |          |        |
//	     +----------+---hub----+--------+
//	                |   |   |
//	             link link link           a cut is made here
//	                |   |   |
//	            kubelets n1 n2 n3
//
// The hub is an embedded server that knows every identity and lets it do what
// architecture.md section 6 allows, or any NATS server that runs already, which is then
// configured by whoever runs it. What is said on the hub is not this package's concern.
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
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/proto"
)

// Addresses is where a cluster network can be reached, as URLs for --bus.
type Addresses struct {
	// Hub is for everyone but nodes.
	Hub []string `json:"hub"`
	// Links has the one URL of each node, by the node's name.
	Links map[string]string `json:"links"`
}

// Config is a cluster network.
type Config struct {
	// Nodes are the names of the nodes that get a link.
	Nodes []string
	// Credentials is the directory of seeds. Those that [Identities] lists are made
	// when they do not exist, and everyone with a seed may connect. Empty means an
	// open hub.
	Credentials string
	// External are the URLs of a NATS server or cluster to use instead of a hub of
	// our own. The links lead to the first of them that answers.
	External []string
	// Host is where hub and links listen; empty means 127.0.0.1.
	Host string
	// Pinned is where to listen again: what Ready told an earlier run. What it does
	// not name gets a free port.
	Pinned Addresses
	// MaxPayload of the hub in bytes; 0 means 8 MiB.
	MaxPayload int32
	// Log is told of clients that were refused and links that broke; nil discards.
	Log *slog.Logger
	// Ready is called once, when everything listens.
	Ready func(Addresses)
}

// Identities are those of a cluster with these nodes.
func Identities(nodes []string) []proto.Identity {
	ids := []proto.Identity{proto.APIServer, proto.Controllers, proto.Gateway, proto.Bus, proto.Client("admin")}
	for _, node := range nodes {
		ids = append(ids, proto.Node(node))
	}
	return ids
}

// Run is the bus process: it returns when ctx ends, after everyone was disconnected,
// or with the reason why it cannot listen.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	hub, err := openHub(ctx, cfg)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	defer hub.close()
	links, err := listen(ctx, cfg, hub.urls[0])
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	addresses := Addresses{Hub: hub.urls, Links: map[string]string{}}
	parts := []func(context.Context) error{func(ctx context.Context) error {
		if cfg.Ready != nil {
			cfg.Ready(addresses)
		}
		<-ctx.Done()
		return nil
	}}
	for _, at := range links {
		addresses.Links[at.node] = at.url
		link := NewLink(at.node, hub.dial, cfg.Log)
		parts = append(parts, link.Run, func(ctx context.Context) error { return link.Listen(ctx, at.listener) })
	}
	return daemon.Run(ctx, parts...)
}

// hub is what the links lead to.
type hub struct {
	urls  []string
	dial  func(context.Context) (net.Conn, error)
	close func()
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
		close: server.Close,
	}, nil
}

// door is where a node's link listens.
type door struct {
	node     string
	listener net.Listener
	url      string
}

// listen opens the doors of all links, or none.
func listen(ctx context.Context, cfg Config, hubURL string) ([]door, error) {
	var doors []door
	for _, node := range cfg.Nodes {
		at, err := openDoor(ctx, cfg, node, hubURL)
		if err != nil {
			for _, opened := range doors {
				err = errors.Join(err, opened.listener.Close())
			}
			return nil, fmt.Errorf("link of node %s: %w", node, err)
		}
		doors = append(doors, at)
	}
	return doors, nil
}

func openDoor(ctx context.Context, cfg Config, node, hubURL string) (door, error) {
	port, err := pinnedPort(cfg.Pinned.Links[node])
	if err != nil {
		return door{}, err
	}
	address, err := url.Parse(hubURL)
	if err != nil {
		return door{}, fmt.Errorf("read hub URL: %w", err)
	}
	var from net.ListenConfig
	listener, err := from.Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(port)))
	if err != nil {
		return door{}, err
	}
	// The same scheme, user and password as the hub's, by another way.
	address.Host = listener.Addr().String()
	return door{node: node, listener: listener, url: address.String()}, nil
}

// pinnedPort is the port of an earlier URL; 0 without one.
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

// defaultPort is NATS's own.
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

// dialFirst connects to the first of hosts that answers.
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
