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
		Name:  "fault",
		Flags: []cli.Flag{&cli.StringFlag{Name: "for"}},
		Subcommands: []*cli.Command{
			{Name: "add", Aliases: []string{"a"}, Flags: []cli.Flag{&cli.BoolFlag{Name: "force"}, &cli.StringFlag{Name: "on", Aliases: []string{"o"}}}},
		},
	})
	for _, c := range []struct{ name, line, want string }{
		{"flags after arguments", "delete pod x --force --grace-period 0", "delete --force --grace-period=0 -- pod x"},
		{"flags before the command", "-n ns --data dir get pods", "--data=dir get --namespace=ns -- pods"},
		{"globals anywhere", "get pods --data dir -w --loud", "--data=dir --loud get --watch -- pods"},
		{"short ones run together", "get po -Aw", "get --all-namespaces --watch -- po"},
		{"short ones with a value", "get po -wojson -lapp=x -n=ns", "get --watch --output=json --selector=app=x --namespace=ns -- po"},
		{"a value that looks like a flag", "delete pod x --grace-period -1", "delete --grace-period=-1 -- pod x"},
		{"a value that looks like a command", "-n get get pods", "get --namespace=get -- pods"},
		{"an argument that looks like a command", "get pods get", "get -- pods get"},
		{"false", "delete pod x --wait=false", "delete --wait=false -- pod x"},
		{"bare", "delete --cascade pod x --dry-run", "delete --cascade=background --dry-run=unchanged -- pod x"},
		{"bare with a value", "delete pod x --cascade=orphan --dry-run=server", "delete --cascade=orphan --dry-run=server -- pod x"},
		{"dashes", "get pods -- -x --loud", "get -- pods -x --loud"},
		{"a lone dash", "create -f -", "create --filename=-"},
		{"a lone dash as an argument", "get - -w", "get --watch -- -"},
		{"several values", "create -f a --filename b -f=c", "create --filename=a --filename=b --filename=c"},
		{"a subcommand", "fault --for 5m add x --force -o y", "fault add --for=5m --force --on=y -- x"},
		{"a subcommand by its alias", "fault a", "fault add"},
		{"no arguments", "version", "version"},
		{"help", "get -h", "get --help"},
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
		{"get pods --frog", "unknown flag: --frog"},
		{"get pods --w", "unknown flag: --w"},
		{"get pods -wz", "unknown shorthand flag: 'z' in -wz"},
		{"get pods -o", "flag needs an argument: 'o' in -o"},
		{"get pods --output", "flag needs an argument: --output"},
	} {
		_, err := client.Arrange(globals, commands, strings.Fields(c.line))
		var usage *client.UsageError
		if !errors.As(err, &usage) || usage.Text != c.want || usage.Command != "get" {
			t.Errorf("Arrange(%q): %v; want %q", c.line, err, c.want)
		}
	}
}
