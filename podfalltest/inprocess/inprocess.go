// Package inprocess composes the services of a cluster in one process, without sockets: the same
// services, links and buses as `podfall up` runs, connected by pipes. Tests use it through
// podfalltest, or through e2e/stage, which delays and reads the traffic on the pipes.
//
//	                   client
//	                     |
//	   +----------+-----hub-----+-----------+
//	   |          |             |           |
//	 link       link          link        link      SetCuts
//	   |          |             |           |
//	apiserver  controllers   gateway    kubelet/n1 --- node bus --- runtime/n1
//
// Parts are called apiserver, controllers, gateway, kubelet/<node> and runtime/<node>. Each is
// started and stopped separately; a stopped part keeps its disk. The package works inside a
// testing/synctest bubble.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/trouble"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/controllers"
	"github.com/podfall/podfall/services/gateway"
	"github.com/podfall/podfall/services/kubelet"
)

// Config configures a cluster. Fields of the services' own configurations that this package knows,
// for example their buses, are filled in.
type Config struct {
	// Dir is an empty directory for the parts' data.
	Dir string
	// Nodes are the nodes' names.
	Nodes []string
	Clocks
	// Compat is the release to imitate.
	Compat proto.Compat
	// Boot returns the boot of a part that is connected and about to run.
	Boot func(part string) proto.Boot
	// Wire may wrap a connection from a part to a bus, for example to delay it. The name is the
	// part's; a kubelet's connection to its node bus is "cri/<node>". Nil wraps nothing.
	Wire        func(name string, open OpenFunc) OpenFunc
	APIServer   apiserver.Config
	Controllers controllers.Config
	// Kubelet returns each node's configuration; nil means upstream's timing.
	Kubelet func(node string) kubelet.Config
	// Gateway is nil for a cluster without a gateway.
	Gateway *Gateway
	Log     *slog.Logger
	// Ended is called when a ready part ends without being stopped; it must not block.
	Ended func(name string, err error)
}

// Clocks are the clocks of the parts.
type Clocks struct {
	// Clock is the cluster's clock; the zero value is the wall clock.
	Clock clock.Clock
	// Skewed holds the clocks of parts that differ from Clock.
	Skewed map[string]clock.Clock
}

// Gateway configures the gateway.
type Gateway struct {
	// Config's TLS and Token count.
	gateway.Config
	// Listen opens the listener for one incarnation.
	Listen func() (net.Listener, error)
}

// OpenFunc opens a connection to a bus.
type OpenFunc func() (net.Conn, error)

// Cluster is a cluster in one process. It is safe for concurrent use, but each part may be started
// and stopped by only one goroutine at a time.
type Cluster struct {
	cfg   Config
	hub   *bus.Server
	nodes map[string]*bus.Server
	network

	mu    sync.Mutex
	parts map[string]*part
	// connections holds the hub connections of running parts, by member.
	connections map[string]*bus.Conn
	faults
	inspectors inspectors
	// troubles records faults, using writer.
	troubles *trouble.Log
	writer   *history.Recorder
}

// part is one service of the cluster.
type part struct {
	run     func(ctx context.Context, ready func()) error
	stop    context.CancelFunc // nil if it does not run
	running sync.WaitGroup
	ended   chan struct{}
	err     error // valid once ended is closed
	// down means that it ran and was stopped.
	down bool
}

// Errors of Start and Stop.
var (
	ErrUnknown = errors.New("no such part")
	ErrRuns    = errors.New("runs already")
	ErrStopped = errors.New("does not run")
)

// New creates the buses and links of a cluster; no part runs yet. The cluster outlives ctx; call
// Close when done.
func New(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Wire == nil {
		cfg.Wire = func(_ string, open OpenFunc) OpenFunc { return open }
	}
	if cfg.Kubelet == nil {
		cfg.Kubelet = func(string) kubelet.Config { return kubelet.Config{} }
	}
	c := &Cluster{
		cfg: cfg, network: network{end: func() {}}, nodes: map[string]*bus.Server{},
		parts: map[string]*part{}, connections: map[string]*bus.Conn{},
	}
	if err := errors.Join(c.openTroubles(), c.startBuses(ctx)); err != nil {
		c.Close()
		return nil, err
	}
	c.add("apiserver", c.apiserver)
	c.add("controllers", c.controllers)
	if cfg.Gateway != nil {
		c.add("gateway", c.gateway)
	}
	for number, node := range cfg.Nodes {
		c.add("runtime/"+node, func(ctx context.Context, ready func()) error { return c.runtime(ctx, node, number, ready) })
		c.add("kubelet/"+node, func(ctx context.Context, ready func()) error { return c.kubelet(ctx, node, ready) })
	}
	return c, nil
}

// startBuses starts the hub, the node buses and the links.
func (c *Cluster) startBuses(ctx context.Context) error {
	var err error
	if c.hub, err = bus.StartServer(ctx, bus.ServerConfig{Port: bus.InProcessOnly}); err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	for _, node := range c.cfg.Nodes {
		if c.nodes[node], err = bus.StartServer(ctx, bus.ServerConfig{Port: bus.InProcessOnly}); err != nil {
			return fmt.Errorf("start the bus of %s: %w", node, err)
		}
	}
	c.network = newNetwork(ctx, c.cfg, c.hub)
	return nil
}

func (c *Cluster) add(name string, run func(context.Context, func()) error) {
	c.parts[name] = &part{run: run}
}

// Start starts a part and waits until it is ready or ctx ends. The part outlives ctx.
func (c *Cluster) Start(ctx context.Context, name string) error {
	began := c.troubles.Now()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ready := make(chan struct{})
	p, err := c.claimStart(name, stop)
	if err != nil {
		stop()
		return err
	}
	ended := p.ended
	p.running.Go(func() {
		defer close(ended)
		p.err = p.run(running, sync.OnceFunc(func() { close(ready) }))
		select {
		case <-ready:
			if running.Err() == nil && c.cfg.Ended != nil {
				c.cfg.Ended(name, p.err)
			}
		default: // Start returns the error
		}
	})
	select {
	case <-ready:
		c.recordUp(began, p, name)
		return nil
	case <-p.ended:
		_ = c.Stop(name) // it has ended and may be started again
		return fmt.Errorf("%s ended before it was ready: %w", name, orNoError(p.err))
	case <-ctx.Done():
		return fmt.Errorf("%s is not ready: %w", name, context.Cause(ctx))
	}
}

func orNoError(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

func (c *Cluster) claimStart(name string, stop context.CancelFunc) (*part, error) {
	c.mu.Lock()
	p := c.parts[name]
	runs := p != nil && p.stop != nil
	c.mu.Unlock()
	switch {
	case p == nil:
		return nil, fmt.Errorf("%s: %w", name, ErrUnknown)
	case runs:
		return nil, fmt.Errorf("%s %w", name, ErrRuns)
	}
	p.running.Wait() // for a part that a fault has crashed
	c.mu.Lock()
	defer c.mu.Unlock()
	p.stop, p.ended = stop, make(chan struct{})
	return p, nil
}

// Stop stops a part like kill -9: none of its goroutines goes on, and its disk remains.
func (c *Cluster) Stop(name string) error {
	c.mu.Lock()
	p := c.parts[name]
	var stop context.CancelFunc
	if p != nil {
		stop, p.stop = p.stop, nil
	}
	c.mu.Unlock()
	switch {
	case p == nil:
		return fmt.Errorf("%s: %w", name, ErrUnknown)
	case stop == nil:
		return fmt.Errorf("%s %w", name, ErrStopped)
	}
	began := c.troubles.Now()
	stop()
	p.running.Wait()
	c.mu.Lock()
	p.down = true
	c.mu.Unlock()
	c.troubles.Begin(began, history.TroubleDown, name)
	return nil
}

// Hub opens a connection to the hub, which requires no credentials.
func (c *Cluster) Hub() (net.Conn, error) { return c.hub.InProcessConn() }

// NodeBus opens a connection to a node's private bus.
func (c *Cluster) NodeBus(node string) (net.Conn, error) { return c.nodes[node].InProcessConn() }

// Close stops every part, kubelets first, and waits for all goroutines.
func (c *Cluster) Close() {
	for _, stage := range c.stopStages() {
		var stopping sync.WaitGroup
		for _, name := range stage {
			stopping.Go(func() { _ = c.Stop(name) }) // fails if it does not run
		}
		stopping.Wait()
	}
	c.end()
	c.carriers.Wait()
	for _, node := range c.nodes {
		if node != nil {
			node.Close()
		}
	}
	if c.hub != nil {
		c.hub.Close()
	}
	c.writer.Close()
}

// stopStages returns the parts in stop order.
func (c *Cluster) stopStages() [][]string {
	stages := make([][]string, 3)
	for _, node := range c.cfg.Nodes {
		stages[0] = append(stages[0], "kubelet/"+node)
		stages[1] = append(stages[1], "runtime/"+node)
	}
	stages[1] = append(stages[1], "controllers", "gateway")
	stages[2] = []string{"apiserver"}
	return stages
}
