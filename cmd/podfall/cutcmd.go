package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/internal/terminal"
)

// defaultCut is the default duration of a cut, in cluster time.
const defaultCut = time.Hour

// cutCommand cuts processes off.
func cutCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "cut", Usage: "cut nodes, or apiserver, controllers or gateway, off from the others", ArgsUsage: "NODE… | GROUP / GROUP…",
		Description: "What is cut is held: nobody is told, and what waits arrives after the heal. With a / between them the nodes are\n" +
			"groups that do not hear each other, and those that are not named are one more: podfall cut node-1,node-2 / node-3.\n" +
			"A cut is over after --for, or on podfall heal; with --hold also when this command ends, however it ends.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "the cut's `NAME`; another of that name is replaced"},
			&cli.StringFlag{Name: "direction", Usage: "both, from-node or to-node: which way is cut"},
			&cli.StringSliceFlag{Name: "only", Usage: fmt.Sprintf("cut these `KINDS` of message alone: %v", partition.Messages())},
			&cli.DurationFlag{Name: "for", Value: defaultCut, Usage: "how long, in the cluster's time; 0 is until it is healed"},
			&cli.BoolFlag{Name: "reset", Usage: "break connections and refuse new ones, so that both sides know"},
			&cli.DurationFlag{Name: "latency", Usage: "do not cut, but let everything take that much longer"},
			&cli.DurationFlag{Name: "jitter", Usage: "and up to that much more, drawn by --seed"},
			&cli.StringFlag{Name: "bandwidth", Usage: "do not cut, but carry that many `BYTES` a second: 1k, 64Ki"},
			&cli.StringFlag{Name: "flap", Usage: "cut and heal in turns: `DOWN[/UP]`, such as 2s/5s"},
			&cli.Uint64Flag{Name: "seed", Usage: "what chance depends on"},
			&cli.BoolFlag{Name: "hold", Usage: "stay, and end the cut on Ctrl-C"},
		},
		Action: func(c *cli.Context) error { return cut(c, layout) },
	}
}

func cut(c *cli.Context, layout cluster.Layout) error {
	spec, err := parseCut(c)
	if err != nil {
		return err
	}
	name := c.String("name")
	if name == "" {
		name = "cut-" + strings.Join(append(slices.Clone(spec.Members), slices.Concat(spec.Groups...)...), "-")
		const longest = 63
		name = strings.TrimRight(name[:min(len(name), longest)], "-")
	}
	options, err := layout.Load()
	if err != nil {
		return err
	}
	if err := partition.Check(name, spec, partition.Members(options.Nodes)); err != nil {
		return usageError("cut: %v", err)
	}
	add := &mgmt.AddCut{Name: name, Spec: spec, Replace: true}
	if c.Bool("hold") {
		host, _ := os.Hostname()
		add.Holder = fmt.Sprintf("podfall cut, pid %d on %s", os.Getpid(), host)
	}
	return withManagement(c, layout, func(client *mgmt.Client) error {
		state, err := client.Set(c.Context, mgmt.Change{Cut: add})
		if err != nil {
			return err
		}
		terminal.Printf(c.App.Writer, "cut %q: %s\n", name, describeCut(state, name))
		if add.Holder == "" {
			return nil
		}
		return holdCut(c.Context, client, name)
	})
}

// holdCut renews a cut's lease until ctx ends, and then heals the cut.
func holdCut(ctx context.Context, client *mgmt.Client, name string) error {
	for (clock.Clock{}).Sleep(ctx, mgmt.LeaseDuration/3) == nil {
		if _, err := client.Set(ctx, mgmt.Change{Renew: name}); errors.Is(err, mgmt.ErrNotFound) {
			return nil // another command has healed it
		} else if err != nil && ctx.Err() == nil {
			return err
		}
	}
	_, err := client.Set(context.WithoutCancel(ctx), mgmt.Change{Heal: &mgmt.Selection{Names: []string{name}}})
	if errors.Is(err, mgmt.ErrNotFound) {
		return nil
	}
	return err
}

// parseCut returns the cut that the command line describes.
func parseCut(c *cli.Context) (partition.Spec, error) {
	spec := partition.Spec{
		Direction: partition.Direction(c.String("direction")), Seed: c.Uint64("seed"),
		Latency: metav1.Duration{Duration: c.Duration("latency")}, Jitter: metav1.Duration{Duration: c.Duration("jitter")},
		Duration: metav1.Duration{Duration: c.Duration("for")},
	}
	for _, kind := range c.StringSlice("only") {
		spec.Only = append(spec.Only, partition.Message(kind))
	}
	if c.Bool("reset") {
		spec.Manner = partition.Reset
	}
	if text := c.String("bandwidth"); text != "" {
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Value() <= 0 {
			return spec, usageError("--bandwidth %q: want a number of bytes a second, such as 1k or 64Ki", text)
		}
		spec.Bandwidth = quantity.Value()
	}
	if text := c.String("flap"); text != "" {
		down, up, both := strings.Cut(text, "/")
		if !both {
			up = down
		}
		var err, other error
		spec.Flap.Down.Duration, err = time.ParseDuration(down)
		spec.Flap.Up.Duration, other = time.ParseDuration(up)
		if err != nil || other != nil || spec.Flap.Down.Duration <= 0 || spec.Flap.Up.Duration <= 0 {
			return spec, usageError("--flap %q: want a time cut, or two: 2s, or 2s/5s", text)
		}
	}
	words := c.Args().Slice()
	if len(words) == 0 {
		return spec, usageError("cut: name who is cut off: nodes, apiserver, controllers or gateway")
	}
	if !slices.Contains(words, "/") {
		spec.Members = splitNames(words)
		return spec, nil
	}
	for group := range strings.SplitSeq(strings.Join(words, ","), "/") {
		spec.Groups = append(spec.Groups, splitNames([]string{group}))
	}
	return spec, nil
}

// splitNames splits words at commas.
func splitNames(words []string) []string {
	return strings.FieldsFunc(strings.Join(words, ","), func(r rune) bool { return r == ',' })
}

func healCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "heal", Usage: "end cuts: of nodes, by name, or all", ArgsUsage: "[NODE…]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "every cut there is"},
			&cli.StringSliceFlag{Name: "cut", Usage: "the cut of this `NAME`"},
		},
		Action: func(c *cli.Context) error {
			selection := &mgmt.Selection{All: c.Bool("all"), Names: c.StringSlice("cut"), Members: splitNames(c.Args().Slice())}
			if !selection.All && len(selection.Names)+len(selection.Members) == 0 {
				return usageError("heal: name nodes, or --all")
			}
			return withManagement(c, layout, func(client *mgmt.Client) error {
				before, err := client.Get(c.Context)
				if err != nil {
					return err
				}
				after, err := client.Set(c.Context, mgmt.Change{Heal: selection})
				if err != nil {
					return err
				}
				for _, cut := range before.Cuts {
					if !slices.ContainsFunc(after.Cuts, func(left partition.Cut) bool { return left.Name == cut.Name }) {
						terminal.Printf(c.App.Writer, "cut %q healed\n", cut.Name)
					}
				}
				return nil
			})
		},
	}
}

// withManagement calls do with a client of the management connection.
func withManagement(c *cli.Context, layout cluster.Layout, do func(*mgmt.Client) error) error {
	if _, err := layout.Load(); err != nil {
		return err
	}
	conn, err := dialHub(c.Context, layout)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(mgmt.NewClient(conn))
}

// describeCut describes a cut for users.
func describeCut(state mgmt.FaultState, name string) string {
	i := slices.IndexFunc(state.Cuts, func(cut partition.Cut) bool { return cut.Name == name })
	if i < 0 {
		return "over"
	}
	cut := state.Cuts[i]
	return strings.Join(cut.Spec.CutOff(state.Members), ", ") + " " + describeManner(cut.Spec) + describeEnd(cut.Until, cut.Lease)
}

// describeManner describes what a cut does to messages.
func describeManner(spec partition.Spec) string {
	what := "cut off"
	switch {
	case len(spec.Only) > 0:
		kinds := make([]string, len(spec.Only))
		for i, kind := range spec.Only {
			kinds[i] = string(kind)
		}
		what = "cut off for " + strings.Join(kinds, ",")
	case spec.Manner == partition.Reset:
		what = "rejected"
	case spec.Manner == "" && (spec.Latency.Duration > 0 || spec.Jitter.Duration > 0 || spec.Bandwidth > 0), spec.Manner == partition.Carry:
		what = "slow"
	}
	if spec.Direction == partition.FromNode || spec.Direction == partition.ToNode {
		what += " " + string(spec.Direction)
	}
	for _, detail := range []struct {
		there bool
		text  string
	}{
		{spec.Latency.Duration > 0, fmt.Sprintf("latency %s", spec.Latency.Duration)},
		{spec.Jitter.Duration > 0, fmt.Sprintf("jitter %s", spec.Jitter.Duration)},
		{spec.Bandwidth > 0, fmt.Sprintf("%d bytes/s", spec.Bandwidth)},
		{spec.Flap != (partition.Flap{}), fmt.Sprintf("flapping %s/%s", spec.Flap.Down.Duration, spec.Flap.Up.Duration)},
	} {
		if detail.there {
			what += ", " + detail.text
		}
	}
	return what
}

// describeEnd describes when a cut ends by itself.
func describeEnd(until time.Time, lease *partition.Lease) string {
	text := ", until it is healed"
	if !until.IsZero() {
		text = ", until " + until.UTC().Format(time.RFC3339)
	}
	if lease != nil {
		text += ", held by " + lease.Holder
	}
	return text
}
