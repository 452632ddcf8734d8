package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// TestReport writes a page for a directory with a history, and fails for a directory without one.
func TestReport(t *testing.T) {
	root := t.TempDir()
	podfall := func(args ...string) (code int, out, errs string) {
		var stdout, stderr bytes.Buffer
		code = run(t.Context(), process{args: args, in: strings.NewReader(""), out: &stdout, errs: &stderr, getenv: func(string) string { return "" }})
		return code, stdout.String(), stderr.String()
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if code, _, errs := podfall("report", root, "--out", page); code != 1 || !strings.Contains(errs, "there is nothing to show") {
		t.Errorf("of an empty directory: exit code %d, %s", code, errs)
	}
	recorder, err := history.Open(history.Config{Dir: filepath.Join(root, "history"), Process: "runtime/node-1"})
	if err != nil {
		t.Fatal(err)
	}
	recorder.Record("", history.Start{ContainerRef: history.ContainerRef{Pod: "default/web", UID: "uid-1", Container: "c1", ContainerName: "main"}})
	recorder.Close()
	if code, out, errs := podfall("report", root, "--out", page, "--title", "A class", "--fact", "seed=17"); code != 0 || !strings.Contains(out, "page.html: 1 lanes") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"<h1>A class</h1>", "<dt>seed</dt><dd>17</dd>", "Nothing was checked:", "has no database", "default/web"} {
		if !strings.Contains(string(html), words) {
			t.Errorf("the page has no %q", words)
		}
	}
	if code, out, errs := podfall("report", root, "--out", "-"); code != 0 || !strings.HasPrefix(out, "<!doctype html>") {
		t.Errorf("to standard output: exit code %d, %.80s%s", code, out, errs)
	}
	if code, _, errs := podfall("report", root, "--out", filepath.Join(root, "nowhere", "page.html")); code != 1 || !strings.Contains(errs, "--out") {
		t.Errorf("into no directory: exit code %d, %s", code, errs)
	}
}
