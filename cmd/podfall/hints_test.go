package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
)

// TestHints calls every command and subcommand with an unknown flag, and with an invalid value for
// each number and duration flag. The hint names the command and leads to its help.
func TestHints(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	app, err := newApp(process{in: strings.NewReader(""), getenv: func(string) string { return "" }}, cluster.Layout{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (code int, out, errs string) {
		var output, problems bytes.Buffer
		code = run(t.Context(), process{
			args: append([]string{"--data", root}, args...), in: strings.NewReader(""), out: &output, errs: &problems,
			getenv: func(string) string { return "" },
		})
		return code, output.String(), problems.String()
	}
	commands, wrong := 0, 0
	walkCommands(nil, app.Commands, func(path []string, command *cli.Command) {
		commands++
		name := strings.Join(path, " ")
		if code, out, _ := ask(append(path, "--help")...); code != 0 || !strings.Contains(out, "podfall "+name+" - ") {
			t.Errorf("podfall %s --help: exit code %d:\n%s", name, code, out)
		}
		for _, flag := range invalidFlags(command) {
			wrong++
			code, _, errs := ask(append(path, flag)...)
			hint := regexp.MustCompile(`See 'podfall (.*) --help' for usage`).FindStringSubmatch(errs)
			if code != exitUsage || hint == nil || hint[1] != name {
				t.Errorf("podfall %s %s: exit code %d, hint %q:\n%s", name, flag, code, hint, errs)
			}
		}
	})
	if commands < 36 || wrong < 60 {
		t.Errorf("%d commands were asked %d times: they are not all there", commands, wrong)
	}
}

// walkCommands visits commands and their subcommands, each with its path of names.
func walkCommands(parents []string, commands []*cli.Command, visit func(path []string, command *cli.Command)) {
	for _, command := range commands {
		path := append(append([]string{}, parents...), command.Name)
		visit(path, command)
		walkCommands(path, command.Subcommands, visit)
	}
}

// invalidFlags returns flags that a command rejects before it does anything.
func invalidFlags(command *cli.Command) []string {
	bad := []string{"--no-such-flag"}
	for _, flag := range command.Flags {
		switch flag.(type) {
		case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag, *cli.Uint64Flag, *cli.Float64Flag, *cli.DurationFlag:
			bad = append(bad, "--"+flag.Names()[0]+"=x")
		}
	}
	return bad
}
