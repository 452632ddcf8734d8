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

// errBlocked ends a why whose object is blocked.
var errBlocked = errors.New("blocked")

func runWhy(ctx context.Context, c *call) error {
	if format := c.flags.String(flagOutput); format != "" && format != "json" {
		return c.misused("--output %q: want json, or nothing", format)
	}
	if !c.flags.Args().Present() {
		return c.explainAll(ctx)
	}
	about, err := c.about(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	report, err := gather.Observer{API: api, Ask: gather.JSON(c.session.Inspect), Clock: c.env.Clock}.Why(ctx, about)
	if err != nil {
		return err
	}
	if c.flags.String(flagOutput) == "json" {
		err = c.json(struct {
			Schema string `json:"schema"`
			why.Report
			Blocked bool `json:"blocked"`
		}{why.Schema, report, report.Blocked()})
	} else {
		c.explain(report)
	}
	switch {
	case err != nil:
		return err
	case report.Blocked():
		return errBlocked
	case report.Missing():
		c.lastDeletion(ctx, about)
		return apierrors.NewNotFound(about.Kind.GroupResource(), about.Name)
	}
	return nil
}

// lastDeletion prints the timeline of a pod that is gone, if its deletion has been written down.
func (c *call) lastDeletion(ctx context.Context, about podapi.Target) {
	if about.Kind.GroupResource().String() != "pods" || c.flags.String(flagOutput) == "json" {
		return
	}
	past, err := c.past(ctx)
	if err != nil {
		return // nothing is written down here, which is not what was asked
	}
	teller := &timelineWriter{past: past, printed: map[toldStep]bool{}, pod: about.Namespace + "/" + about.Name}
	if told, found, err := teller.read(ctx); err == nil && found {
		terminal.Printf(c.stdout, "\n")
		teller.write(told)
		teller.end()
	}
}

// about is the one object that the arguments name: pod/web, or pod web.
func (c *call) about(ctx context.Context) (podapi.Target, error) {
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

// json prints a value for programs.
func (c *call) json(value any) error {
	encoder := json.NewEncoder(c.env.Stdout)
	encoder.SetIndent("", "    ")
	return encoder.Encode(value)
}

// explain prints a report for people.
func (c *call) explain(report why.Report) {
	where := ""
	if report.Namespace != "" {
		where = " in " + report.Namespace
	}
	terminal.Printf(c.stdout, "%s%s: %s\n", report.Object, where, report.State)
	if len(report.Findings) == 0 && !report.Blocked() && !report.Missing() {
		terminal.Printf(c.stdout, "Nothing is known to block it.\n")
	}
	for _, f := range report.Findings {
		c.finding(f, report.At)
	}
	for _, below := range report.Below {
		terminal.Printf(c.stdout, "\n%s: %s: %s\n", below.Object, below.State, strings.Join(below.IDs(), ", "))
	}
	terminal.Printf(c.stdout, "\n%s\n", evidence(report.Sources))
}

func (c *call) finding(f why.Finding, now time.Time) {
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
