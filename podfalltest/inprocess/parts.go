package inprocess

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/controllers"
	"github.com/podfall/podfall/services/gateway"
	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/runtime"
)

// dial connects a party to a bus.
func (c *Cluster) dial(ctx context.Context, name string, id proto.Identity, open Open) (*bus.Conn, error) {
	return bus.Dial(ctx, bus.Config{Identity: id, InProcess: c.cfg.Wire(name, open), Log: c.cfg.Log})
}

func (c *Cluster) apiserver(ctx context.Context, ready func()) error {
	const name = "apiserver"
	conn, err := c.dial(ctx, name, proto.APIServer, c.hub.InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := c.cfg.APIServer
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log, cfg.Ready = conn, c.cfg.Clock, c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log, ready
	cfg.DataDir, cfg.NoSync = filepath.Join(c.cfg.Dir, name), true // what crashes is not the machine
	return apiserver.Run(ctx, cfg)
}

func (c *Cluster) controllers(ctx context.Context, ready func()) error {
	const name = "controllers"
	conn, err := c.dial(ctx, name, proto.Controllers, c.hub.InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := c.cfg.Controllers
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log, cfg.Ready = conn, c.cfg.Clock, c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log, ready
	return controllers.Run(ctx, cfg)
}

func (c *Cluster) gateway(ctx context.Context, ready func()) error {
	const name = "gateway"
	conn, err := c.dial(ctx, name, proto.Gateway, c.hub.InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := c.cfg.Gateway.Config
	if cfg.Listener, err = c.cfg.Gateway.Listen(); err != nil {
		return err
	}
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log = conn, c.cfg.Clock, c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log
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
	return runtime.Run(ctx, runtime.Config{
		Bus: conn, DataDir: filepath.Join(c.cfg.Dir, node, "runtime"), Clock: c.cfg.Clock, Boot: c.cfg.Boot(name), Log: c.cfg.Log,
		NoSync: true, Ready: ready, PodCIDR: fmt.Sprintf("10.244.%d.0/24", number),
	})
}

func (c *Cluster) kubelet(ctx context.Context, node string, ready func()) error {
	name := "kubelet/" + node
	conn, err := c.dial(ctx, name, proto.Node(node), c.links[node].InProcessConn)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer c.speaks(node, conn)()
	cri, err := c.dial(ctx, "cri/"+node, proto.Kubelet, c.nodes[node].InProcessConn)
	if err != nil {
		return err
	}
	defer cri.Close()
	cfg := c.cfg.Kubelet(node)
	cfg.Bus, cfg.Clock, cfg.Compat, cfg.Boot, cfg.Log, cfg.Ready = conn, c.cfg.Clock, c.cfg.Compat, c.cfg.Boot(name), c.cfg.Log, ready
	cfg.Node, cfg.Runtime, cfg.DataDir = node, cri, filepath.Join(c.cfg.Dir, node, "kubelet")
	return kubelet.Run(ctx, cfg)
}
