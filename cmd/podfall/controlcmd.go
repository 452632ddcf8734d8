package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/terminal"
)

// controlCommands returns the commands that crash, pause, resume and start single processes.
func controlCommands(layout cluster.Layout) []*cli.Command {
	type act func(ctx context.Context, options cluster.Options, name string) error
	command := func(name, usage, done string, act act) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, ArgsUsage: "COMPONENT[/NODE]…",
			Action: func(c *cli.Context) error {
				return forEachProcess(c, layout, name, func(options cluster.Options, component string) error {
					if err := act(c.Context, options, component); err != nil {
						return err
					}
					terminal.Printf(c.App.Writer, "%s %s\n", component, done)
					return nil
				})
			},
		}
	}
	start := &cli.Command{
		Name: "start", Usage: "start processes that have ended, and wait until they are ready", ArgsUsage: "COMPONENT[/NODE]…",
		Action: func(c *cli.Context) error {
			options, err := layout.Load()
			if err != nil {
				return err
			}
			if !c.Args().Present() {
				return usageError("start: name what to start: %v", layout.Names(options))
			}
			if err := layout.CheckNames(options, c.Args().Slice()...); err != nil {
				return usageError("start: %v", err)
			}
			return layout.Restart(c.Context, options, c.Args().Slice(), lineWriter(c.App.Writer))
		},
	}
	return []*cli.Command{
		command("crash", "end processes as kill -9 does; start starts them again", "crashed", layout.Crash),
		command("pause", "stop processes where they are (SIGSTOP), as a frozen machine does", "paused", layout.Pause),
		command("resume", "let processes go on that were paused", "resumed", layout.Resume),
		start,
	}
}

// forEachProcess calls act for each process that the command line names.
func forEachProcess(c *cli.Context, layout cluster.Layout, verb string, act func(cluster.Options, string) error) error {
	options, err := layout.Load()
	if err != nil {
		return err
	}
	if !c.Args().Present() {
		return usageError("%s: name one of %v", verb, layout.Names(options))
	}
	if err := layout.CheckNames(options, c.Args().Slice()...); err != nil {
		return usageError("%s: %v", verb, err)
	}
	for _, name := range c.Args().Slice() {
		if err := act(options, name); err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
	}
	return nil
}
