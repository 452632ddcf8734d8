// Command podfall is a Kubernetes pod-deletion emulator in one binary. Each cluster process and
// each user command is a subcommand. This package only connects the parts; start reading at
// docs/deletion.md.
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
	syscall.Umask(0o077) // only the owner may read keys, objects and logs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, process{
		args: commandLine(os.Args), in: os.Stdin, out: os.Stdout, errs: os.Stderr, getenv: os.Getenv,
		release: func() { signal.Reset(os.Interrupt, syscall.SIGTERM) },
	})
	stop()
	os.Exit(code)
}

// commandLine returns the arguments without the program's name. A program named kubectl-why is
// kubectl's plug-in for podfall why.
func commandLine(args []string) []string {
	if filepath.Base(args[0]) == "kubectl-why" {
		return append([]string{"why"}, args[1:]...)
	}
	return args[1:]
}

// run executes a command and returns the exit code.
func run(ctx context.Context, p process) int {
	err := runCommandLine(ctx, p)
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

func runCommandLine(ctx context.Context, p process) error {
	layout, err := findLayout(p)
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
			return unknownCommand(app.Commands, kubectl.Verb(p.args))
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

// Exit codes; package client defines its own.
const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)
