package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime"
)

func runtimeCommand() *cli.Command {
	return &cli.Command{
		Name: "runtime", Usage: "the sandboxes and containers of one node, and its private bus", Category: "processes",
		Flags: append(serviceFlags(
			nodeFlag(),
			&cli.StringFlag{Name: "node-keys", Usage: "the `DIRECTORY` of the seeds of the private bus; none for an open one"},
			&cli.StringFlag{Name: "address", Usage: "the `FILE` to write the private bus's URL to; if it exists, listen there again"},
			&cli.StringFlag{Name: "listen", Value: loopback, Usage: "the `ADDRESS` of the private bus"},
			&cli.StringFlag{Name: "data", Required: true, Usage: "the `DIRECTORY` of the runtime's records"},
			&cli.StringFlag{Name: "pod-cidr", Usage: "what sandboxes get addresses from, such as 10.244.0.0/24"},
		), containerFlags()...),
		Action: func(c *cli.Context) error {
			s, err := newService(c, "runtime/"+c.String("node"))
			if err != nil {
				return err
			}
			what, err := newContainers(c, s)
			if err != nil {
				return err
			}
			server, err := startNodeBus(c, s)
			if err != nil {
				return err
			}
			defer server.Close()
			conn, err := s.dial(c.Context, server.URL(), c.String("node-keys"), proto.Runtime)
			if err != nil {
				return err
			}
			defer conn.Close()
			recorder, err := s.openHistory(c)
			if err != nil {
				return err
			}
			defer recorder.Close()
			return s.serve(c, func(ctx context.Context, _ *mgmt.Agent) error {
				return runPublishing(ctx, c.String("address"), s, func(ctx context.Context, publish func(any) error) error {
					return runtime.Run(ctx, runtime.Config{
						Bus: conn, Observers: observers[inspect.Runtime](s, recorder), Faults: s.managed.faults, DataDir: c.String("data"), Clock: s.clock, Log: s.log, Boot: s.boot,
						PodCIDR: c.String("pod-cidr"), Containers: runtime.Containers{Engines: what.engines, Handler: what.handler, Images: what.images, Programs: what.programs},
						Ready: func() { _ = publish(keepHost(c.String("address"), server.URL())) },
					})
				})
			})
		},
	}
}

// startNodeBus starts the node bus, which stands for a node's CRI socket. It reuses its previous
// port, if there was one.
func startNodeBus(c *cli.Context, s service) (*bus.Server, error) {
	port, err := previousPort(c.String("address"))
	if err != nil {
		return nil, err
	}
	cfg := bus.ServerConfig{Host: c.String("listen"), Port: port, Log: s.log}
	if keys := c.String("node-keys"); keys != "" {
		if cfg.Users, err = bus.LoadUsers(keys); err != nil {
			return nil, err
		}
	}
	return bus.StartServer(c.Context, cfg)
}

// keepHost returns the URL of an earlier run if it has the same port as own, because other machines
// may know this host by another name.
func keepHost(path, own string) cluster.URLFile {
	var former cluster.URLFile
	if readAddresses(path, &former) == nil && portOf(former.URL) == portOf(own) {
		return former
	}
	return cluster.URLFile{URL: own}
}

func portOf(address string) string {
	at, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return at.Port()
}

// previousPort returns the port in the address file of an earlier run; 0 without one.
func previousPort(path string) (int, error) {
	var former cluster.URLFile
	if err := readAddresses(path, &former); err != nil || former.URL == "" {
		return 0, err
	}
	at, err := url.Parse(former.URL)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return port, nil
}
