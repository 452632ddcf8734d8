package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
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

func apiResourcesCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:  "api-resources",
		Usage: "list the kinds that can be named",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: flagNoHeaders, Usage: "no column titles"},
			&cli.BoolFlag{Name: "namespaced", Value: true, Usage: "kinds in namespaces, or with =false those outside"},
			outputFlag("name or wide"),
		},
		Action: action(env, runAPIResources),
	}
}

func runAPIResources(ctx context.Context, c *call) error {
	format := c.flags.String(flagOutput)
	if format != "" && format != "name" && format != "wide" {
		return fmt.Errorf("--output %s is not available: want name or wide", format)
	}
	all := c.kinds(ctx).everything()
	slices.SortStableFunc(all, func(a, b kinds.Kind) int {
		return strings.Compare(a.Group+"/"+a.Resource, b.Group+"/"+b.Resource)
	})
	w := printers.GetNewTabWriter(c.stdout)
	if format != "name" && !c.flags.Bool(flagNoHeaders) {
		terminal.Printf(w, "NAME\tSHORTNAMES\tAPIVERSION\tNAMESPACED\tKIND\n")
	}
	for _, kind := range all {
		switch {
		case c.flags.IsSet("namespaced") && c.flags.Bool("namespaced") != kind.Namespaced:
		case format == "name":
			terminal.Printf(w, "%s\n", kind.GroupResource().String())
		default:
			terminal.Printf(w, "%s\t%s\t%s\t%t\t%s\n", kind.Resource, strings.Join(kind.ShortNames, ","), kind.GroupVersion(), kind.Namespaced, kind.Kind)
		}
	}
	return w.Flush()
}
