// Command podfall is a Kubernetes pod-deletion emulator in one binary: each of a
// cluster's processes is a subcommand, and so is everything that people type. Start
// reading at docs/deletion.md; this package only puts the parts together.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // CronJobs have time zones, and an image from scratch has none

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/kubectl"
	"github.com/podfall/podfall/services/client"
)

// version is set by the Makefile. `go install` leaves it empty.
var version string

// buildVersion returns the version that the Makefile or the module proxy gave this program,
// or "development".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "development"
}

func main() {
	syscall.Umask(0o077) // keys, objects and logs are their owner's alone
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, process{
		args: line(os.Args), in: os.Stdin, out: os.Stdout, errs: os.Stderr, variable: os.Getenv,
		release: func() { signal.Reset(os.Interrupt, syscall.SIGTERM) },
	})
	stop()
	os.Exit(code)
}

// line is the command line without the program's name. Under the name kubectl-why podfall
// is kubectl's plug-in for its why.
func line(args []string) []string {
	if filepath.Base(args[0]) == "kubectl-why" {
		return append([]string{"why"}, args[1:]...)
	}
	return args[1:]
}

// run is podfall without a process around it; it returns the exit code.
func run(ctx context.Context, p process) int {
	err := command(ctx, p)
	var coded cli.ExitCoder
	var misused *client.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		if text := err.Error(); text != "" {
			fmt.Fprintln(p.errs, text)
		}
		return coded.ExitCode()
	case errors.As(err, &misused):
		fmt.Fprintf(p.errs, "error: %v\n", misused)
		return exitUsage
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	default:
		fmt.Fprintf(p.errs, "error: %v\n", err)
		return exitError
	}
}

func command(ctx context.Context, p process) error {
	layout, err := layoutFor(p)
	if err != nil {
		return err
	}
	app, err := newApp(p, layout)
	if err != nil {
		return err
	}
	if isKubectl(app.Commands, p.args) {
		code, err := runKubectl(ctx, p, layout, app.Commands)
		switch {
		case errors.Is(err, kubectl.ErrUnknown):
			return unknown(app.Commands, kubectl.Verb(p.args))
		case err == nil && code != 0:
			err = cli.Exit("", code)
		}
		return err
	}
	if kubectl.Verb(p.args) == "" {
		app.Commands = append(app.Commands, kubectlHelp(app.Commands)...)
	}
	args, err := client.Arrange(app.Flags, app.Commands, p.args)
	if err != nil {
		return err
	}
	return app.RunContext(ctx, append([]string{app.Name}, args...))
}

// Exit codes; the client's own are in its package.
const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)
