package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/terminal"
)

func cordonCommand(env Env) *cli.Command {
	return schedulingCommand(env, "cordon", "keep new pods off nodes", cordoning{true, "cordoned"})
}

func uncordonCommand(env Env) *cli.Command {
	return schedulingCommand(env, "uncordon", "let new pods onto nodes again", cordoning{false, "uncordoned"})
}

// cordoning is one of the two commands: what it sets, and its word for having done so.
type cordoning struct {
	unschedulable bool
	done          string
}

func schedulingCommand(env Env, name, usage string, what cordoning) *cli.Command {
	return &cli.Command{
		Name:      name,
		Usage:     usage,
		ArgsUsage: "NODE… | -l SELECTOR",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: flagSelector, Aliases: []string{"l"}, Usage: "label selector"},
			dryRunFlag(),
		},
		Action: action(env, func(ctx context.Context, c *call) error { return runCordon(ctx, c, what) }),
	}
}

func runCordon(ctx context.Context, c *call, what cordoning) error {
	run, err := c.dryRun()
	if err != nil {
		return err
	}
	names := c.flags.Args().Slice()
	selector := c.flags.String(flagSelector)
	switch {
	case len(names) > 0 && selector != "":
		return errors.New("cannot specify both a node name and a --selector option")
	case len(names) == 0 && selector == "":
		name := c.flags.Command.Name
		return fmt.Errorf("USAGE: %s NODE [flags]\nSee 'podfall %s -h' for help and examples", name, name)
	}
	nodes := known(corev1.SchemeGroupVersion.WithKind("Node"))
	where := aim{choose: deleteSelection{selector: selector}}
	for _, name := range names {
		where.selection.objects = append(where.selection.objects, object{nodes, name})
	}
	if selector != "" {
		where.selection.kinds = append(where.selection.kinds, nodes)
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	found, errs := where.victims(ctx, api)
	for _, v := range found {
		errs = appendErr(errs, c.cordonNode(ctx, api, v, run, what))
	}
	return joined(errs)
}

func (c *call) cordonNode(ctx context.Context, api API, v victim, run dryRun, what cordoning) error {
	obj, err := api.Get(ctx, v.target, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if node, ok := obj.(*corev1.Node); ok && node.Spec.Unschedulable == what.unschedulable {
		terminal.Printf(c.stdout, "node/%s already %s%s\n", v.target.Name, what.done, run.suffix())
		return nil
	}
	if run != dryRunClient {
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, what.unschedulable)
		_, err := api.Patch(ctx, v.target, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{
			DryRun: run.options(), FieldManager: fieldManager,
		})
		if err != nil {
			return err
		}
	}
	terminal.Printf(c.stdout, "node/%s %s%s\n", v.target.Name, what.done, run.suffix())
	return nil
}
