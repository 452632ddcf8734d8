package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/services/client"
)

func TestArrange(t *testing.T) {
	globals := []cli.Flag{&cli.StringFlag{Name: "data"}, &cli.BoolFlag{Name: "loud"}}
	commands := append(client.Commands(client.Env{}), &cli.Command{
		Name: "cut",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "only", Aliases: []string{"f"}}, &cli.BoolFlag{Name: "wait", Aliases: []string{"w"}},
			&cli.BoolFlag{Name: "all", Aliases: []string{"A"}}, &cli.IntFlag{Name: "loss"},
			&cli.StringFlag{Name: "selector", Aliases: []string{"l"}}, &cli.StringFlag{Name: "output", Aliases: []string{"o"}}, &cli.StringFlag{Name: "namespace", Aliases: []string{"n"}},
		},
	}, &cli.Command{
		Name:  "fault",
		Flags: []cli.Flag{&cli.StringFlag{Name: "for"}},
		Subcommands: []*cli.Command{
			{Name: "add", Aliases: []string{"a"}, Flags: []cli.Flag{&cli.BoolFlag{Name: "force"}, &cli.StringFlag{Name: "on", Aliases: []string{"o"}}}},
		},
	})
	for _, c := range []struct{ name, line, want string }{
		{"flags after arguments", "cut x --all --loss 0", "cut --all --loss=0 -- x"},
		{"flags before the command", "-n ns --data dir cut x", "--data=dir cut --namespace=ns -- x"},
		{"globals anywhere", "cut x --data dir -w --loud", "--data=dir --loud cut --wait -- x"},
		{"short ones run together", "cut x -Aw", "cut --all --wait -- x"},
		{"short ones with a value", "cut x -wojson -lapp=x -n=ns", "cut --wait --output=json --selector=app=x --namespace=ns -- x"},
		{"a value that looks like a flag", "cut x --loss -1", "cut --loss=-1 -- x"},
		{"a value that looks like a command", "-n cut cut x", "cut --namespace=cut -- x"},
		{"an argument that looks like a command", "cut x cut", "cut -- x cut"},
		{"false", "cut x --wait=false", "cut --wait=false -- x"},
		{"dashes", "cut x -- -x --loud", "cut -- x -x --loud"},
		{"a lone dash", "cut -f -", "cut --only=-"},
		{"a lone dash as an argument", "cut - -w", "cut --wait -- -"},
		{"several values", "cut -f a --only b -f=c", "cut --only=a --only=b --only=c"},
		{"a subcommand", "fault --for 5m add x --force -o y", "fault add --for=5m --force --on=y -- x"},
		{"a subcommand by its alias", "fault a", "fault add"},
		{"no arguments", "version", "version"},
		{"help", "why -h", "why --help"},
		{"no command", "--loud", "--loud"},
		{"no such command", "frobnicate -x", "frobnicate -x"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := client.Arrange(globals, commands, strings.Fields(c.line))
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("Arrange(%q) = %q, %v; want %q", c.line, strings.Join(got, " "), err, c.want)
			}
		})
	}
	for _, c := range []struct{ line, want string }{
		{"why pods --frog", "unknown flag: --frog"},
		{"why pods --w", "unknown flag: --w"},
		{"why pods -Az", "unknown shorthand flag: 'z' in -Az"},
		{"why pods -o", "flag needs an argument: 'o' in -o"},
		{"why pods --output", "flag needs an argument: --output"},
	} {
		_, err := client.Arrange(globals, commands, strings.Fields(c.line))
		var usage *client.UsageError
		if !errors.As(err, &usage) || usage.Text != c.want || usage.Command != "why" {
			t.Errorf("Arrange(%q): %v; want %q", c.line, err, c.want)
		}
	}
}
