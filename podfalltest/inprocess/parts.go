package inprocess

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podcidr"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/controllers"
	"github.com/podfall/podfall/services/gateway"
	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/runtime"
)

// dial connects a part to a bus.
func (c *Cluster) dial(ctx context.Context, name string, id proto.Identity, open OpenFunc) (*bus.Conn, error) {
	return bus.Dial(ctx, bus.Config{Identity: id, InProcess: c.cfg.Wire(name, open), Log: c.cfg.Log})
}

// partClock returns the part's clock.
func (c *Cluster) partClock(part string) clock.Clock {
	if own, ok := c.cfg.Skewed[part]; ok {
		return own
	}
	return c.cfg.Clock
}

// storage returns the directory of the persistent volumes, which all nodes share.
func (c *Cluster) storage() string { return filepath.Join(c.cfg.Dir, "volumes") }

func (c *Cluster) apiserver(ctx context.Context, ready func()) error {
	const name = "apiserver"
	conn, err := c.dial(ctx, name, proto.APIServer, c.links[name].InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer c.trackConnection(name, conn)()
	cfg := c.cfg.APIServer
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log, cfg.Ready = conn, c.partClock(name), c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log, ready
	cfg.DataDir, cfg.NoSync = filepath.Join(c.cfg.Dir, name), true // only processes crash, not the machine
	var done func()
	if cfg.Observers, done, err = observe[inspect.APIServer](c, name, cfg.Boot); err != nil {
		return err
	}
	defer done()
	cfg.Faults = c.newTable(name, cfg.History)
	return apiserver.Run(ctx, cfg)
}

func (c *Cluster) controllers(ctx context.Context, ready func()) error {
	const name = "controllers"
	conn, err := c.dial(ctx, name, proto.Controllers, c.links[name].InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer c.trackConnection(name, conn)()
	cfg := c.cfg.Controllers
	cfg.Storage = c.storage()
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log, cfg.Ready = conn, c.partClock(name), c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log, ready
	var done func()
	if cfg.Observers, done, err = observe[inspect.Controllers](c, name, cfg.Boot); err != nil {
		return err
	}
	defer done()
	cfg.Ask, cfg.Faults = c.Inspect, c.newTable(name, cfg.History)
	return controllers.Run(ctx, cfg)
}

func (c *Cluster) gateway(ctx context.Context, ready func()) error {
	const name = "gateway"
	conn, err := c.dial(ctx, name, proto.Gateway, c.links[name].InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer c.trackConnection(name, conn)()
	cfg := c.cfg.Gateway.Config
	cfg.Faults = c.newTable(name, nil)
	if cfg.Listener, err = c.cfg.Gateway.Listen(); err != nil {
		return err
	}
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log = conn, c.partClock(name), c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log
	cfg.Ready = func(string) { ready() }
	return gateway.Run(ctx, cfg)
}

func (c *Cluster) runtime(ctx context.Context, node string, number int, ready func()) error {
	name := "runtime/" + node
	conn, err := c.dial(ctx, name, proto.Runtime, c.nodes[node].InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	boot := c.cfg.Boot(name)
	observers, done, err := observe[inspect.Runtime](c, name, boot)
	if err != nil {
		return err
	}
	defer done()
	pods := c.cfg.Kubelet(node).Machine.Capacity[corev1.ResourcePods]
	return runtime.Run(ctx, runtime.Config{
		Bus: conn, DataDir: filepath.Join(c.cfg.Dir, node, "runtime"), Clock: c.partClock(name), Boot: boot, Log: c.cfg.Log,
		Observers: observers, Faults: c.newTable(name, observers.History), NoSync: true, Ready: ready, PodCIDR: podcidr.NodeCIDR(number, int(pods.Value())),
	})
}

func (c *Cluster) kubelet(ctx context.Context, node string, ready func()) error {
	name := "kubelet/" + node
	conn, err := c.dial(ctx, name, proto.Node(node), c.links[node].InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer c.trackConnection(node, conn)()
	cri, err := c.dial(ctx, "cri/"+node, proto.Kubelet, c.nodes[node].InProcessConn)
	if err != nil {
		return err
	}
	defer cri.Close()
	cfg := c.cfg.Kubelet(node)
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log, cfg.Ready = conn, c.partClock(name), c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log, ready
	cfg.Machine.Storage = c.storage()
	cfg.Node, cfg.Runtime, cfg.DataDir = node, cri, filepath.Join(c.cfg.Dir, node, "kubelet")
	var done func()
	if cfg.Observers, done, err = observe[inspect.Kubelet](c, name, cfg.Boot); err != nil {
		return err
	}
	defer done()
	cfg.Machine.Faults = c.newTable(name, cfg.History)
	return kubelet.Run(ctx, cfg)
}
