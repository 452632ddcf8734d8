// Command podfall is a Kubernetes pod-deletion emulator in one binary: each of a
// cluster's processes is a subcommand, and so is everything that people type. Start
// reading at docs/deletion.md; this package only puts the parts together.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// version is set by the Makefile.
var version = "development" //nolint:gochecknoglobals // the linker can set nothing else

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is podfall without a process around it; it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	app := newApp(in, out, errs)
	err := app.RunContext(ctx, reorder(app, args))
	var coded cli.ExitCoder
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		if text := coded.Error(); text != "" {
			fmt.Fprintln(errs, text)
		}
		return coded.ExitCode()
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	default:
		fmt.Fprintf(errs, "error: %v\n", err)
		return exitError
	}
}

// Exit codes; the client's own are in its package.
const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)
