package main

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/analysis/report"
	"github.com/podfall/podfall/cmd/podfall/cluster"
)

// reportCommand writes a page from a cluster's data directory.
func reportCommand(layout cluster.Layout) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "write one page that shows what happened to each pod, what was broken, and which promises were kept", ArgsUsage: "[DIR]",
		Description: "DIR is a cluster's data directory, --data by default: its histories are read, and its database, unless its apiserver runs.\n" +
			"The page is one HTML file that needs nothing else: swim-lanes of every incarnation of a pod, along the cluster's time.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Value: "podfall-report.html", Usage: "the `FILE` to write, or - for standard output"},
			&cli.StringFlag{Name: "title", Usage: "the page's `TITLE`"},
			&cli.StringSliceFlag{Name: "fact", Usage: "a `NAME=VALUE` to show under the title, such as seed=17"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usageError("report takes one directory, not %d", c.NArg())
			}
			if c.Args().Present() {
				layout = cluster.Layout{Root: c.Args().First()}
			}
			page, err := makeReport(c, layout)
			if err != nil {
				return err
			}
			return writeReport(c, page)
		},
	}
}

// makeReport builds the page. Evidence that proves nothing is shown too, and marked.
func makeReport(c *cli.Context, layout cluster.Layout) (report.Page, error) {
	in := report.Input{Title: c.String("title")}
	if in.Title == "" {
		in.Title = "What happened in " + filepath.Base(layout.Root)
	}
	for _, text := range c.StringSlice("fact") {
		fact, err := parseFact(text)
		if err != nil {
			return report.Page{}, err
		}
		in.Facts = append(in.Facts, fact)
	}
	var notes bytes.Buffer
	evidence, err := readEvidence(c.Context, layout, io.MultiWriter(&notes, c.App.ErrWriter))
	if err != nil {
		return report.Page{}, err
	}
	in.Log, in.Notes = evidence.Log, nonEmptyLines(notes.Bytes())
	in.Results, in.Unproven = guarantees.Check(evidence)
	page, err := report.New(in)
	if err != nil {
		return page, fmt.Errorf("%s: %w", layout.History(), err)
	}
	return page, nil
}

// parseFact parses NAME=VALUE.
func parseFact(text string) (report.Fact, error) {
	for i, r := range text {
		if r == '=' && i > 0 {
			return report.Fact{Name: text[:i], Value: text[i+1:]}, nil
		}
	}
	return report.Fact{}, usageError("--fact %q: want a name, = and a value", text)
}

// nonEmptyLines returns the lines of a text without empty ones.
func nonEmptyLines(text []byte) []string {
	var all []string
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			all = append(all, string(line))
		}
	}
	return all
}

// writeReport writes the page atomically and prints its path.
func writeReport(c *cli.Context, page report.Page) error {
	path := c.String("out")
	if path == "-" {
		return page.Write(c.App.Writer)
	}
	var html bytes.Buffer
	if err := page.Write(&html); err != nil {
		return err
	}
	if err := cluster.WriteFile(path, html.Bytes()); err != nil {
		return fmt.Errorf("--out %s: %w", path, err)
	}
	fmt.Fprintf(c.App.Writer, "%s: %d lanes, %d promises held, %d broken, %d not checkable\n", path,
		len(page.Lanes), len(page.Verdicts.Held), len(page.Verdicts.Broken), len(page.Verdicts.NotCheckable))
	return nil
}
