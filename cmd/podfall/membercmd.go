package main

import (
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
)

// prepareCommand creates the data directories of a cluster with separately started processes.
func prepareCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "prepare", Usage: "make the keys and addresses of a cluster whose processes run each by itself", Category: "processes",
		Description: "For containers: every process then runs as `podfall member NAME`. Each node's directory in --shares gets what\n" +
			"its two processes need, and no key but theirs. A cluster that is there keeps its keys.",
		Flags: append(clusterFlags(),
			&cli.StringFlag{Name: "shares", Usage: "the `DIRECTORY` with a directory for each node"},
			&cli.StringFlag{Name: "hub", Value: "management", Usage: "the bus's `HOST` on the network of management"},
			&cli.StringFlag{Name: "links", Value: "hub", Usage: "the bus's `HOST` on the network of the cluster"},
			&cli.StringFlag{Name: "runtime-host", Value: "runtime-%s", Usage: "a runtime's `HOST` on its node's network, %s for the node"},
		),
		Action: func(c *cli.Context) error {
			if c.String("shares") == "" {
				return usageError("--shares: want a directory")
			}
			requested, err := parseOptions(c)
			if err != nil {
				return err
			}
			if requested.Port == 0 {
				return usageError("--port 0: want the port that the gateway is published on")
			}
			if !strings.Contains(c.String("runtime-host"), "%s") {
				return usageError("--runtime-host %q: want %%s in it, for the node", c.String("runtime-host"))
			}
			requested.Listen = cluster.AllAddresses
			if stored, err := layout.Load(); err == nil {
				requested.Origin = stored.Origin
			}
			options, err := layout.Create(requested, makeKeys)
			if err != nil {
				return err
			}
			hosts := cluster.Hosts{Hub: c.String("hub"), Links: c.String("links"), Runtime: func(node string) string {
				return strings.ReplaceAll(c.String("runtime-host"), "%s", node)
			}}
			if err := layout.Prepare(options, hosts); err != nil {
				return err
			}
			for _, node := range options.Nodes {
				if err := layout.Share(options, node, cluster.Layout{Root: filepath.Join(c.String("shares"), node)}); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// memberCommand replaces this process with a process of the cluster, or checks that the process is
// ready.
func memberCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "member", Usage: "run one process of a cluster that was prepared", ArgsUsage: "PROCESS", Category: "processes",
		Description: "PROCESS is bus, apiserver, controllers, gateway, kubelet/NODE or runtime/NODE. With --ready it runs nothing and\n" +
			"exits with 0 when the process has said that it is ready.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "ready", Usage: "only say whether the process is ready"}},
		Action: func(c *cli.Context) error {
			options, err := layout.Load()
			if err != nil {
				return err
			}
			if c.NArg() != 1 {
				return usageError("member: want the name of one process")
			}
			if err := layout.CheckNames(options, c.Args().First()); err != nil {
				return usageError("member: %v", err)
			}
			member, arguments, err := layout.Member(options, c.Args().First())
			if err != nil {
				return err
			}
			if c.Bool("ready") {
				return layout.CheckReady(member)
			}
			return layout.Exec(member, arguments)
		},
	}
}
