package client

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
)

func versionCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "say which release is imitated",
		Action: action(env, func(_ context.Context, c *call) error {
			terminal.Printf(c.stdout, "podfall, imitating Kubernetes %s; bus contract %d\n", c.env.Compat.Release, proto.Version)
			return nil
		}),
	}
}
