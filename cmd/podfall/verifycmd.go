package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/apiserver/store"
)

// verifyCommand checks the data that a cluster has left.
func verifyCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check what a cluster has written down against what podfall promises; exit code 4 when a promise is broken", ArgsUsage: "[DIR]",
		Description: "DIR is a cluster's data directory, --data by default: its histories are read, and its database, unless its apiserver runs.\n" +
			"The properties are those of docs/dev/guarantees.md.",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "tell only of what is broken"}},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usageError("verify takes one directory, not %d", c.NArg())
			}
			if c.Args().Present() {
				layout = cluster.Layout{Root: c.Args().First()}
			}
			if info, err := os.Stat(layout.History()); err != nil || !info.IsDir() {
				return usageError("verify DIR %q: it holds no histories: want a cluster's data directory, such as .podfall", layout.Root)
			}
			evidence, err := readEvidence(c.Context, layout, c.App.ErrWriter)
			if err != nil {
				return err
			}
			results, err := guarantees.Check(evidence)
			if err != nil {
				return fmt.Errorf("%s: %w", layout.Root, err)
			}
			if broken := printResults(c.App.Writer, results, c.Bool("quiet")); broken > 0 {
				return cli.Exit(fmt.Sprintf("%d of %d properties are broken", broken, len(results)), exitFailed)
			}
			return nil
		},
	}
}

// readEvidence reads a cluster's histories, and its database unless an apiserver has it open.
func readEvidence(ctx context.Context, layout cluster.Layout, warnings io.Writer) (guarantees.Evidence, error) {
	log, err := history.Read(layout.History())
	if err != nil {
		return guarantees.Evidence{}, err
	}
	evidence := guarantees.Evidence{Log: log}
	found, err := apiserver.Verify(ctx, layout.Store())
	evidence.Disk, err = guarantees.NewDisk(found.Revision, found.Objects, err)
	if missing := whyNoStore(layout, evidence.Disk, err); missing != "" {
		terminal.Printf(warnings, "%s: commits are taken from the apiserver's history only\n", missing)
		return evidence, nil
	}
	if err != nil {
		return evidence, err
	}
	evidence.Store, err = apiserver.Export(layout.Store())
	return evidence, err
}

// whyNoStore returns why a cluster is checked without its database, given the result of verifying
// the database. It is empty if the database can be read, or if the error is unexpected.
func whyNoStore(layout cluster.Layout, disk *guarantees.Disk, err error) string {
	switch {
	case errors.Is(err, store.ErrLocked):
		return "the apiserver runs and has the database"
	case errors.Is(err, fs.ErrNotExist):
		return layout.Store() + " has no database"
	case err == nil && disk.Damage != nil:
		return disk.Damage.Error()
	}
	return ""
}

// printResults prints the result of each property, and returns how many are violated.
func printResults(out io.Writer, results []guarantees.Result, quiet bool) (broken int) {
	count := make(map[guarantees.Verdict]int)
	for _, r := range results {
		count[r.Verdict]++
		switch {
		case r.Verdict == guarantees.Violated:
			terminal.Printf(out, "%-4s broken         %s (%d of %d cases)\n", r.ID, r.Statement, r.Violations, r.Cases)
			for _, line := range r.First.Lines() {
				terminal.Printf(out, "       %s\n", line)
			}
		case quiet:
		case r.Verdict == guarantees.Held:
			terminal.Printf(out, "%-4s held           %s (%d cases)%s\n", r.ID, r.Statement, r.Cases, partlyNote(r.Limits))
		default:
			terminal.Printf(out, "%-4s not checkable  %s: %s\n", r.ID, r.Statement, r.Why)
		}
	}
	fmt.Fprintln(out, strings.Join([]string{
		fmt.Sprint(count[guarantees.Held], " held"), fmt.Sprint(count[guarantees.Violated], " broken"), fmt.Sprint(count[guarantees.NotCheckable], " not checkable"),
	}, ", "))
	return count[guarantees.Violated]
}

// partlyNote describes the part of a property that was not checked.
func partlyNote(partly string) string {
	if partly == "" {
		return ""
	}
	return "; " + partly
}
