package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/terminal"
)

func whyCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "say why an object that is being deleted is still there, or all that are; exit code 3 if one is blocked",
		ArgsUsage: "[TYPE/NAME | TYPE NAME]",
		Flags:     []cli.Flag{namespaceFlag(), allNamespacesFlag(), outputFlag("json")},
		Action:    action(env, runWhy),
	}
}

// errBlocked ends `why` if the object is blocked.
var errBlocked = errors.New("blocked")

func runWhy(ctx context.Context, c *call) error {
	if format := c.flags.String(flagOutput); format != "" && format != "json" {
		return c.misused("--output %q: want json, or nothing", format)
	}
	if !c.flags.Args().Present() {
		return c.explainAll(ctx)
	}
	object, err := c.parseObject(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	report, err := gather.Observer{API: api, Ask: gather.JSON(c.session.Inspect), Clock: c.env.Clock}.Why(ctx, object)
	if err != nil {
		return err
	}
	if c.flags.String(flagOutput) == "json" {
		err = c.printJSON(struct {
			Schema string `json:"schema"`
			why.Report
			Blocked bool `json:"blocked"`
		}{why.Schema, report, report.Blocked()})
	} else {
		c.printReport(report)
	}
	switch {
	case err != nil:
		return err
	case report.Blocked():
		return errBlocked
	case report.Missing():
		c.printLastDeletion(ctx, object)
		return apierrors.NewNotFound(object.Kind.GroupResource(), object.Name)
	}
	return nil
}

// printLastDeletion prints the timeline of a pod that is gone, if the history has its deletion.
func (c *call) printLastDeletion(ctx context.Context, object podapi.Target) {
	if object.Kind.GroupResource().String() != "pods" || c.flags.String(flagOutput) == "json" {
		return
	}
	reader, err := c.openHistory(ctx)
	if err != nil {
		return // nothing is written down here, which is not what was asked
	}
	writer := &timelineWriter{historyReader: reader, printed: map[stepKey]bool{}, pod: object.Namespace + "/" + object.Name}
	if current, found, err := writer.readNew(ctx); err == nil && found {
		terminal.Printf(c.stdout, "\n")
		writer.printNew(current)
		writer.printSources()
	}
}

// parseObject parses the one object that the arguments name: pod/web, or pod web.
func (c *call) parseObject(ctx context.Context) (podapi.Target, error) {
	args := c.flags.Args().Slice()
	if len(args) == 2 && !strings.Contains(args[0], "/") {
		args = []string{args[0] + "/" + args[1]}
	}
	if len(args) != 1 || !strings.Contains(args[0], "/") {
		return podapi.Target{}, c.misused("want one object, such as pod/web, not %q", args)
	}
	what, name, _ := strings.Cut(args[0], "/")
	if what == "" || name == "" || strings.Contains(name, "/") {
		return podapi.Target{}, fmt.Errorf("%q: want a kind, a slash and a name, such as pod/web", args[0])
	}
	kind, err := c.kinds(ctx).alias(what)
	if err != nil {
		return podapi.Target{}, err
	}
	namespace, _ := c.namespace()
	return target(kind, namespace, name), nil
}

// printJSON prints a value for programs.
func (c *call) printJSON(value any) error {
	encoder := json.NewEncoder(c.env.Stdout)
	encoder.SetIndent("", "    ")
	return encoder.Encode(value)
}

// printReport prints a report for people.
func (c *call) printReport(report why.Report) {
	where := ""
	if report.Namespace != "" {
		where = " in " + report.Namespace
	}
	terminal.Printf(c.stdout, "%s%s: %s\n", report.Object, where, report.State)
	if len(report.Findings) == 0 && !report.Blocked() && !report.Missing() {
		terminal.Printf(c.stdout, "Nothing is known to block it.\n")
	}
	for _, f := range report.Findings {
		c.printFinding(f, report.At)
	}
	for _, below := range report.Below {
		terminal.Printf(c.stdout, "\n%s: %s: %s\n", below.Object, below.State, strings.Join(below.IDs(), ", "))
	}
	terminal.Printf(c.stdout, "\n%s\n", formatSources(report.Sources))
}

func (c *call) printFinding(f why.Finding, now time.Time) {
	title := f.Title()
	if lasted := now.Sub(f.Since); !f.Since.IsZero() && lasted >= 0 { // it may be of a clock that is ahead
		title += fmt.Sprintf(", for %v", lasted.Round(time.Second))
	}
	terminal.Printf(c.stdout, "\n%s\n  %s\n", title, f.Cause)
	row := func(label, text string) { terminal.Printf(c.stdout, "  %-10s %s\n", label, text) }
	label := "seen"
	for _, text := range f.Evidence {
		row(label, text)
		label = ""
	}
	row("who acts", f.Who)
	row("unblocks", f.Unblocks)
	row("forcing", f.Forcing)
	if len(f.Maybe) > 0 {
		row("or maybe", strings.Join(f.Maybe, ", "))
	}
}
