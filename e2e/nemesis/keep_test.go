package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	promises "github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/analysis/report"
	"github.com/podfall/podfall/e2e/guarantees"
)

// saveReport writes the report directory of a failed run, or if -report asks for it. It has the
// layout of a cluster's data directory, so that podfall can read it.
func saveReport(t *testing.T, c *cluster, seed uint64) {
	t.Helper()
	dir := *reportDir
	if dir == "" {
		if !t.Failed() {
			return
		}
		var err error
		if dir, err = os.MkdirTemp("", "podfall-nemesis-report-"); err != nil { //nolint:usetesting // it is there after the test
			t.Error(err)
			return
		}
	}
	if err := saveReportIn(t, c, dir, seed); err != nil {
		t.Errorf("the report in %s is not whole: %v", dir, err)
		return
	}
	t.Logf("report in %s", dir)
}

func saveReportIn(t *testing.T, c *cluster, dir string, seed uint64) error {
	t.Helper()
	for _, part := range []string{"history", "apiserver", "log"} {
		if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(c.data, part))); err != nil {
			return err
		}
	}
	again := fmt.Sprintf("go test ./nemesis -run TestNemesis -seed %d -faults %d", seed, *faults)
	for name, text := range map[string]string{
		"seed.json": fmt.Sprintf("{\"seed\": %d, \"faults\": %d}\n", seed, *faults),
		"replay.sh": "#!/bin/sh\n# What this run was: (cd e2e && " + again + ")\n# What it has left behind, judged and drawn again:\ncd \"$(dirname \"$0\")\"\n" +
			"podfall verify . ; podfall report . --out report.html --title \"Nemesis, seed " + fmt.Sprint(seed) + "\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil { //nolint:gosec // a script is to be run
			return err
		}
	}
	evidence, err := guarantees.ReadEvidence(context.WithoutCancel(t.Context()), c.data)
	in := report.Input{
		Title: fmt.Sprintf("Nemesis, seed %d", seed), Facts: []report.Fact{{Name: "again", Value: again}}, Log: evidence.Log,
	}
	if err != nil { // in a running cluster the apiserver has the database open
		in.Notes = []string{err.Error()}
	}
	in.Results, in.Unproven = promises.Check(evidence)
	return writePage(in, filepath.Join(dir, "report.html"))
}

// writePage writes a page, as podfall report does.
func writePage(in report.Input, path string) error {
	page, err := report.New(in)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(page.Write(file), file.Close())
}
