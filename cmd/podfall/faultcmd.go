package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/terminal"
)

// faultCommand adds, lists and clears faults.
func faultCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "fault", Usage: "break something on purpose, and mend it", ArgsUsage: "add|list|clear|points",
		Description: "podfall fault points lists where something can go wrong, and what.",
		Subcommands: []*cli.Command{faultAddCommand(layout), faultListCommand(layout), faultClearCommand(layout), faultPointsCommand()},
		Action: func(c *cli.Context) error {
			return usageError("%s: want add, list, clear or points", strings.Join(append([]string{"fault"}, c.Args().Slice()...), " "))
		},
	}
}

// selector is a flag that selects where a fault applies.
type selector struct {
	flag, usage string
	field       func(*fault.Attributes) *string
}

func faultSelectors() []selector {
	return []selector{
		{"process", "the `PROCESS`, such as apiserver or kubelet/node-1", func(a *fault.Attributes) *string { return &a.Process }},
		{"node", "the `NODE`", func(a *fault.Attributes) *string { return &a.Node }},
		{"namespace", "the `NAMESPACE`", func(a *fault.Attributes) *string { return &a.Namespace }},
		{"pod", "the `POD`", func(a *fault.Attributes) *string { return &a.Pod }},
		{"container", "the `CONTAINER`", func(a *fault.Attributes) *string { return &a.Container }},
		{"volume", "the `VOLUME`", func(a *fault.Attributes) *string { return &a.Volume }},
		{"image", "the `IMAGE`", func(a *fault.Attributes) *string { return &a.Image }},
		{"client", "who asks: node:node-1, controllers, controllers/job, gateway/kubectl, client:admin", func(a *fault.Attributes) *string { return &a.Client }},
		{"verb", "the `VERB` of a request, the type of an event, or the signal", func(a *fault.Attributes) *string { return &a.Verb }},
		{"resource", "the `RESOURCE`, such as pods or leases.coordination.k8s.io", func(a *fault.Attributes) *string { return &a.Resource }},
		{"subresource", "the `SUBRESOURCE`, such as status", func(a *fault.Attributes) *string { return &a.Subresource }},
		{"object", "the `NAME` of the object", func(a *fault.Attributes) *string { return &a.Name }},
	}
}

func faultAddCommand(layout cluster.Layout) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "point", Usage: "where: one of podfall fault points, or a beginning and a *"},
		&cli.StringFlag{Name: "effect", Usage: "what: error, hang, delay, crash, drop, duplicate, expire, lie or value"},
		&cli.StringFlag{Name: "code", Usage: "an error's `CODE`: Unavailable and the like at cri.*, an HTTP status at api.request"},
		&cli.StringFlag{Name: "message", Usage: "an error's `TEXT`"},
		&cli.DurationFlag{Name: "delay", Usage: "how long a delay is, in the cluster's time"},
		&cli.StringFlag{Name: "value", Usage: "what the point reads in place of the truth"},
		&cli.Float64Flag{Name: "probability", Usage: "the chance that what is selected is struck, more than 0 and up to 1"},
		&cli.Uint64Flag{Name: "seed", Usage: "what chance depends on"},
		&cli.Uint64Flag{Name: "skip", Usage: "let so many pass at first"},
		&cli.Uint64Flag{Name: "count", Usage: "strike so many at most"},
		&cli.DurationFlag{Name: "for", Usage: "how long, in the cluster's time; 0 is until it is cleared"},
		&cli.BoolFlag{Name: "replace", Usage: "take the place of another fault of that name"},
	}
	for _, s := range faultSelectors() {
		flags = append(flags, &cli.StringFlag{Name: s.flag, Usage: s.usage})
	}
	return &cli.Command{
		Name: "add", Usage: "break something", ArgsUsage: "NAME", Flags: flags,
		Description: "What selects may end in * for any rest, and name alternatives with commas between them.",
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return usageError("fault add: want one name for the fault")
			}
			spec := fault.Spec{
				Point: fault.Point(c.String("point")),
				Effect: fault.Effect{
					Kind: fault.Kind(c.String("effect")), Code: c.String("code"), Message: c.String("message"),
					Delay: metav1.Duration{Duration: c.Duration("delay")}, Value: c.String("value"),
				},
				Probability: c.Float64("probability"), Seed: c.Uint64("seed"), Skip: c.Uint64("skip"), Count: c.Uint64("count"),
				Duration: metav1.Duration{Duration: c.Duration("for")},
			}
			for _, s := range faultSelectors() {
				*s.field(&spec.Where) = c.String(s.flag)
			}
			name := c.Args().First()
			if err := checkFault(layout, name, spec); err != nil {
				return err
			}
			return withManagement(c, layout, func(client *mgmt.Client) error {
				if _, err := client.Set(c.Context, mgmt.Change{AddFault: &mgmt.AddFault{Name: name, Spec: spec, Replace: c.Bool("replace")}}); err != nil {
					return err
				}
				terminal.Printf(c.App.Writer, "fault %q added\n", name)
				return nil
			})
		},
	}
}

// checkFault rejects faults that are invalid, or name nodes and processes that the cluster does not
// have.
func checkFault(layout cluster.Layout, name string, spec fault.Spec) error {
	if err := fault.Check(name, spec); err != nil {
		return usageError("fault add: %v", err)
	}
	options, err := layout.Load()
	if err != nil {
		return err
	}
	for _, selected := range []struct {
		flag, pattern string
		known         []string
	}{
		{"node", spec.Where.Node, options.Nodes},
		{"process", spec.Where.Process, layout.Names(options)},
	} {
		for one := range strings.SplitSeq(selected.pattern, ",") {
			if one != "" && !strings.HasSuffix(one, "*") && !slices.Contains(selected.known, one) {
				return usageError("--%s %q: want one of %s, or a beginning and a *", selected.flag, one, strings.Join(selected.known, ", "))
			}
		}
	}
	return nil
}

func faultListCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "what is broken", Flags: []cli.Flag{outputFlag()},
		Action: func(c *cli.Context) error {
			return withManagement(c, layout, func(client *mgmt.Client) error {
				state, err := client.Get(c.Context)
				if err != nil {
					return err
				}
				switch output := c.String("output"); output {
				case "json":
					return json.NewEncoder(c.App.Writer).Encode(state.Faults)
				case "":
					return printFaults(c.App.Writer, state.Faults)
				default:
					return usageError("--output %q: want json", output)
				}
			})
		},
	}
}

func printFaults(out io.Writer, faults []fault.Fault) error {
	if len(faults) == 0 {
		fmt.Fprintln(out, "nothing is broken")
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "FAULT\tPOINT\tEFFECT\tWHERE\tUNTIL")
	for _, f := range faults {
		until := "<cleared>"
		if !f.Until.IsZero() {
			until = f.Until.UTC().Format(time.RFC3339)
		}
		terminal.Printf(table, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.Spec.Point, describeEffect(f.Spec), describeSelection(f.Spec.Where), until)
	}
	return table.Flush()
}

// describeEffect describes what a fault does.
func describeEffect(spec fault.Spec) string {
	words := []string{string(spec.Effect.Kind), spec.Effect.Code, spec.Effect.Value}
	if spec.Effect.Delay.Duration > 0 {
		words = append(words, spec.Effect.Delay.Duration.String())
	}
	if spec.Probability > 0 && spec.Probability < 1 {
		words = append(words, fmt.Sprintf("p=%v", spec.Probability))
	}
	if spec.Count > 0 {
		words = append(words, fmt.Sprintf("%dx", spec.Count))
	}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// describeSelection describes where a fault applies.
func describeSelection(about fault.Attributes) string {
	var selected []string
	for _, s := range faultSelectors() {
		if value := *s.field(&about); value != "" {
			selected = append(selected, s.flag+"="+value)
		}
	}
	if len(selected) == 0 {
		return "<everything>"
	}
	return strings.Join(selected, " ")
}

func faultClearCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "clear", Usage: "mend what faults have broken", ArgsUsage: "NAME…",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "every fault there is"}},
		Action: func(c *cli.Context) error {
			selection := &mgmt.Selection{All: c.Bool("all"), Names: c.Args().Slice()}
			if !selection.All && len(selection.Names) == 0 {
				return usageError("fault clear: name faults, or --all")
			}
			return withManagement(c, layout, func(client *mgmt.Client) error {
				before, err := client.Get(c.Context)
				if err != nil {
					return err
				}
				after, err := client.Set(c.Context, mgmt.Change{ClearFaults: selection})
				if err != nil {
					return err
				}
				for _, f := range before.Faults {
					if !slices.ContainsFunc(after.Faults, func(left fault.Fault) bool { return left.Name == f.Name }) {
						terminal.Printf(c.App.Writer, "fault %q cleared\n", f.Name)
					}
				}
				return nil
			})
		},
	}
}

func faultPointsCommand() *cli.Command {
	return &cli.Command{
		Name: "points", Usage: "where something can go wrong, and what",
		Action: func(c *cli.Context) error {
			table := tabwriter.NewWriter(c.App.Writer, 0, 8, 3, ' ', 0)
			fmt.Fprintln(table, "POINT\tEFFECTS\tSELECTED BY\tWHAT HAPPENS THERE")
			for _, info := range fault.Points() {
				kinds := make([]string, len(info.Kinds))
				for i, kind := range info.Kinds {
					kinds[i] = string(kind)
				}
				terminal.Printf(table, "%s\t%s\t%s\t%s\n", info.Point, strings.Join(kinds, ","), strings.Join(info.Where, ","), info.Description)
			}
			return table.Flush()
		},
	}
}
