package inprocess

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/partition"
	carrier "github.com/podfall/podfall/services/bus"
)

// network holds the links of a cluster and their cuts.
type network struct {
	members     []string
	links       map[string]*carrier.Link
	switchboard *carrier.Switchboard
	// carriers waits for the links; end stops them.
	carriers *sync.WaitGroup
	end      context.CancelFunc
	cuts     []partition.Cut
}

// newNetwork creates the links of all members and runs them until end.
func newNetwork(ctx context.Context, cfg Config, hub *bus.Server) network {
	n := network{members: partition.Members(cfg.Nodes), links: map[string]*carrier.Link{}, carriers: &sync.WaitGroup{}}
	carrying, end := context.WithCancel(context.WithoutCancel(ctx))
	n.end = end
	links := make([]*carrier.Link, 0, len(n.members))
	for _, member := range n.members {
		link := carrier.NewLink(carrier.LinkConfig{
			Member: member, Dial: func(context.Context) (net.Conn, error) { return hub.InProcessConn() }, Clock: cfg.Clock, Log: cfg.Log,
		})
		n.links[member], links = link, append(links, link)
		n.carriers.Go(func() { _ = link.Run(carrying) }) // a cut link ends without an error
	}
	n.switchboard = carrier.NewSwitchboard(links, cfg.Clock)
	n.carriers.Go(func() { _ = n.switchboard.Run(carrying) }) // so does the switchboard
	return n
}

// Members returns everything that can be cut off: apiserver, controllers, gateway, and the nodes.
func (c *Cluster) Members() []string { return slices.Clone(c.members) }

// SetCuts replaces all cuts. No arguments heal the whole network.
func (c *Cluster) SetCuts(cuts ...partition.Cut) {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	began := c.troubles.Now()
	c.cuts = slices.Clone(cuts)
	c.switchboard.Set(c.cuts)
	c.setTables()
	c.recordTroubles(began)
}

// Cuts returns the current cuts, including those that have ended by themselves.
func (c *Cluster) Cuts() []partition.Cut {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	return slices.Clone(c.cuts)
}

// AwaitConnected waits until the hub receives from the member, or ctx ends. It returns at once if
// the member's part does not run.
func (c *Cluster) AwaitConnected(ctx context.Context, member string) error {
	for {
		c.mu.Lock()
		voice := c.connections[member]
		c.mu.Unlock()
		if voice == nil || voice.Flush(ctx) == nil {
			return nil
		}
		if err := (clock.Clock{}).Sleep(ctx, connectPollInterval); err != nil {
			return fmt.Errorf("%s is not heard after its link has healed: %w", member, context.Cause(ctx))
		}
	}
}

// connectPollInterval is the interval of AwaitConnected.
const connectPollInterval = 5 * time.Millisecond

// trackConnection registers a part's connection to the hub while the part runs.
func (c *Cluster) trackConnection(member string, conn *bus.Conn) (ends func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connections[member] = conn
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.connections, member)
	}
}
