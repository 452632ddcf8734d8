package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	network "github.com/podfall/podfall/services/bus"
	"github.com/podfall/podfall/services/controllers"
)

// admin is the identity of command-line users.
const admin = "admin"

// upCommand creates a cluster, or starts it again.
func upCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "start a cluster: every process, until all nodes are Ready",
		Description: "Without --detach it stays, and stops the cluster on Ctrl-C. With --detach it leaves a supervisor.\n" +
			"Run again on a cluster whose processes have ended, it starts those.",
		Flags: append(clusterFlags(), &cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "return when the cluster is ready"}),
		Action: func(c *cli.Context) error {
			requested, err := parseOptions(c)
			if err != nil {
				return err
			}
			if stored, err := layout.Load(); err == nil {
				requested = keepStored(c, requested, stored)
			}
			options, err := layout.Create(requested, makeKeys)
			if err != nil {
				return err
			}
			say := lineWriter(c.App.ErrWriter)
			if c.Bool("detach") {
				if err := layout.Detach(c.Context, say); err != nil {
					return err
				}
				return announce(c, layout, options)
			}
			return runSupervisor(c.Context, layout, say, func() {
				if err := announce(c, layout, options); err != nil {
					say(err.Error())
				}
			})
		},
	}
}

// clusterFlags returns the flags that describe a cluster.
func clusterFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "name", Value: "podfall", Usage: "the cluster's `NAME`"},
		&cli.IntFlag{Name: "nodes", Value: 3, Usage: "how many nodes, 1 to 200"},
		&cli.Float64Flag{Name: "speed", Value: 1, Usage: "seconds of the cluster in one of the wall, 0.001 to 10000"},
		&cli.StringFlag{Name: "compat", Value: proto.DefaultRelease, Usage: "the `RELEASE` to imitate: v1.37 or v1.22"},
		&cli.StringFlag{Name: "timing", Value: "default", Usage: "the kubelets' ticks: default (upstream's) or fastest"},
		&cli.StringSliceFlag{Name: "kubelet-arg", Usage: "give every kubelet this `ARGUMENT`, such as --relist-period=100ms"},
		&cli.StringSliceFlag{Name: "controllers", Usage: "the `CONTROLLERS` to run: * for all, a name, or -name for all but that one"},
		&cli.StringSliceFlag{Name: pluginsFlag, Usage: "the admission `PLUGINS` to leave out, such as DefaultTolerationSeconds"},
		stuckEventsFlag(),
		&cli.IntFlag{Name: "port", Usage: "the `PORT` of the Kubernetes API; 0 means a free one, the same after a restart"},
		&cli.StringSliceFlag{Name: "bus", Usage: "use the NATS server at this `URL` instead of an own one"},
		hostPathFlag(),
	}, containerFlags()...)
}

// parseOptions returns the cluster options of the command line.
func parseOptions(c *cli.Context) (cluster.Options, error) {
	options := cluster.Options{
		Name: c.String("name"), Speed: c.Float64("speed"), Origin: clock.Clock{}.Now(),
		Compat: c.String("compat"), Timing: c.String("timing"), ExternalBus: c.StringSlice("bus"),
		KubeletArguments: c.StringSlice("kubelet-arg"), Port: c.Int("port"),
		ControlPlane: cluster.ControlPlane{Controllers: c.StringSlice("controllers"), DisablePlugins: c.StringSlice(pluginsFlag), StuckEvents: c.Bool(stuckEvents)},
	}
	var err error
	if options.Containers, err = parseContainers(c); err != nil {
		return options, err
	}
	if options.Containers.HostPathRoot, err = parseHostPathRoot(c); err != nil {
		return options, err
	}
	if options.Port < 0 || options.Port > 65535 {
		return options, usageError("--port %d: want 0 to 65535", options.Port)
	}
	if _, err := controllers.Select(options.Controllers); err != nil {
		return options, usageError("--%v", err)
	}
	if _, err := apiserver.Plugins(options.DisablePlugins); err != nil {
		return options, usageError("--%v", err)
	}
	if nodes := c.Int("nodes"); nodes < 1 || nodes > 200 {
		return options, usageError("--nodes %d: want 1 to 200", nodes)
	}
	for i := range c.Int("nodes") {
		options.Nodes = append(options.Nodes, "node-"+strconv.Itoa(i+1))
	}
	if _, err := options.Schedule(); err != nil {
		return options, usageError("--%v", err)
	}
	if _, err := proto.CompatFor(options.Compat); err != nil {
		return options, usageError("--%v", err)
	}
	if options.Timing != "default" && options.Timing != "fastest" {
		return options, usageError("--timing %q: want default or fastest", options.Timing)
	}
	return options, nil
}

// keepStored returns asked, with stored values for all options that the command line does not set.
func keepStored(c *cli.Context, requested, stored cluster.Options) cluster.Options {
	for flags, keep := range map[string]func(){
		"name":        func() { requested.Name = stored.Name },
		"nodes":       func() { requested.Nodes = stored.Nodes },
		"speed":       func() { requested.Speed = stored.Speed },
		"compat":      func() { requested.Compat = stored.Compat },
		"timing":      func() { requested.Timing = stored.Timing },
		"kubelet-arg": func() { requested.KubeletArguments = stored.KubeletArguments },
		"controllers": func() { requested.Controllers = stored.Controllers },
		pluginsFlag:   func() { requested.DisablePlugins = stored.DisablePlugins },
		stuckEvents:   func() { requested.StuckEvents = stored.StuckEvents },
		"port":        func() { requested.Port = stored.Port },
		"bus":         func() { requested.ExternalBus = stored.ExternalBus },
		"allow-exec images engine pid1 isolation exec-user i-am-in-a-container host-path-root": func() { requested.Containers = stored.Containers },
	} {
		if !slices.ContainsFunc(strings.Fields(flags), c.IsSet) {
			keep()
		}
	}
	return requested
}

// makeKeys creates one key for each identity of the cluster, two for each node bus, and the
// gateway's secrets.
//
// It works concurrently, because most of the time is spent waiting for the disk, once per file.
func makeKeys(layout cluster.Layout, options cluster.Options) error {
	makers := []func() error{
		func() error { return layout.MakeGatewaySecrets(clock.Clock{}.Now()) }, // clients compare certificates with the wall clock
	}
	for _, id := range network.Identities(options.Nodes) {
		makers = append(makers, func() error { return makeKey(layout.Keys(), id) })
	}
	for _, node := range options.Nodes {
		for _, id := range []proto.Identity{proto.Kubelet, proto.Runtime} {
			makers = append(makers, func() error { return makeKey(layout.NodeKeys(node), id) })
		}
	}
	failures := make([]error, len(makers))
	turns := make(chan struct{}, 32) // each maker keeps a few files open
	var making sync.WaitGroup
	for i, maker := range makers {
		turns <- struct{}{}
		making.Go(func() {
			failures[i] = maker()
			<-turns
		})
	}
	making.Wait()
	return errors.Join(failures...)
}

func makeKey(dir string, id proto.Identity) error {
	_, err := bus.WriteCredentials(dir, id)
	return err
}

// superviseCommand is the process that up --detach leaves running.
func superviseCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "supervise", Usage: "own the processes of a cluster that up has made", Hidden: true,
		Flags: []cli.Flag{readyFlag()},
		Action: func(c *cli.Context) error {
			readyPipe := os.NewFile(uintptr(c.Int("ready-fd")), "ready")
			defer readyPipe.Close()
			toParent, toLog := lineWriter(readyPipe), lineWriter(c.App.ErrWriter)
			ready := false
			say := func(line string) {
				toLog(line)
				toParent(line) // the parent reads until it knows the result; a closed pipe is no error
			}
			err := runSupervisor(c.Context, layout, say, func() { ready = true; toParent(cluster.LineReady) })
			if err != nil && !ready {
				toParent(cluster.LineFailed + err.Error())
			}
			return err
		},
	}
}

func runSupervisor(ctx context.Context, layout cluster.Layout, say func(string), ready func()) error {
	options, err := layout.Load()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal is gone
	defer stop()
	again := make(chan os.Signal, 1)
	signal.Notify(again, cluster.SignalStart)
	defer signal.Stop(again)
	return cluster.NewSupervisor(layout, options, say).Run(ctx, again, ready)
}

// lineWriter returns a function that writes lines and is safe for concurrent use.
func lineWriter(out io.Writer) func(string) {
	var mu sync.Mutex
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, line)
	}
}

// announce prints how to reach the cluster once it is ready.
func announce(c *cli.Context, layout cluster.Layout, options cluster.Options) error {
	if err := layout.WriteKubeconfig(options); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if len(options.Containers.AllowExec) > 0 {
		if err := warnPrograms(c, layout, options); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.App.ErrWriter, "the cluster is ready; podfall finds it here, and kubectl too, with:")
	fmt.Fprintf(c.App.Writer, "export PODFALL_DATA=%s\nexport KUBECONFIG=%s\n", layout.Root, layout.Kubeconfig())
	return nil
}

func downCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "down", Usage: "stop a cluster and leave nothing running",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "purge", Usage: "remove its data too"}},
		Action: func(c *cli.Context) error {
			if _, err := layout.Load(); err != nil {
				return err
			}
			if err := layout.Down(c.Context, lineWriter(c.App.ErrWriter)); err != nil {
				return err
			}
			if c.Bool("purge") {
				return layout.Purge()
			}
			return nil
		},
	}
}

func readyFlag() cli.Flag {
	return &cli.IntFlag{Name: "ready-fd", Hidden: true, Usage: "the descriptor to say ready on"}
}

// usageError returns a command-line error with exit code 2.
func usageError(format string, args ...any) error {
	return cli.Exit("error: "+fmt.Sprintf(format, args...), exitUsage)
}
