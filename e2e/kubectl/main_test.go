package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// version is the release that the kubectl built here says it is: that of its modules.
const version = "v1.37.2"

var update = flag.Bool("update", false, "write the transcripts anew")

// programs are what the transcripts are played with, each in a directory of its own in
// which it is called kubectl.
var programs = map[string]string{}

// podfall is the binary under test, built from this tree.
var podfall string

// shared is the cluster of every transcript that does not want one of its own.
var shared *cluster

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kubectl-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err == nil {
		shared, err = up(filepath.Join(dir, "shared"), "--nodes", "3")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprint(os.Stderr, shared.logs())
	}
	if err := shared.down(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prepare builds podfall and kubectl, and looks for another kubectl on PATH. Most of
// the time of a transcript is waiting, so more of them run at once than there are cores.
func prepare(dir string) error {
	if !parallelWasSet() {
		if err := flag.Set("test.parallel", "8"); err != nil {
			return err
		}
	}
	podfall = filepath.Join(dir, "bin", "podfall")
	built := filepath.Join(dir, "stock", "kubectl")
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version
	for _, arguments := range [][]string{
		{"build", "-o", podfall, "github.com/podfall/podfall/cmd/podfall"},
		{"build", "-ldflags", flags, "-o", built, "."},
	} {
		build := exec.Command("go", arguments...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
		}
	}
	programs[stock] = built
	programs[own] = podfall
	if path, err := exec.LookPath("kubectl"); err == nil && runs(path) {
		programs[installed] = path
	}
	for name, path := range programs {
		link := filepath.Join(dir, name, "kubectl")
		programs[name] = link
		if link == path {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return err
		}
		if err := os.Symlink(path, link); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether a kubectl is of the minor release whose differences the
// transcripts record. Of another there is nothing to say.
func runs(path string) bool {
	out, err := exec.Command(path, "version", "--client").Output()
	return err == nil && strings.Contains(string(out), "Client Version: v"+installed+".")
}

func parallelWasSet() bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	return set
}
