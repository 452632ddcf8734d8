package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
)

// call is one command being carried out: its flags, its arguments and, once it has
// asked for it, its connection.
type call struct {
	env     Env
	flags   *cli.Context
	session *Session
	found   *finder
	// stdout and stderr are for people: they drop control bytes.
	stdout io.Writer
	stderr io.Writer
}

// The exit codes of this package.
const (
	exitError       = 1
	exitBlocked     = 3
	exitInterrupted = 130
)

// errInterruptedWait ends a delete, wait or watch that the user interrupted (CLI-29).
var errInterruptedWait = errors.New("interrupted while waiting")

// action makes a command's Action out of what the command does. It prints the error,
// and returns one that only carries the exit code.
func action(env Env, do func(context.Context, *call) error) cli.ActionFunc {
	return func(flags *cli.Context) error {
		c := &call{env: env, flags: flags, stdout: terminal.Writer(env.Stdout), stderr: terminal.Writer(env.Stderr)}
		defer c.close()
		err := do(flags.Context, c)
		switch {
		case err == nil:
			return nil
		case errors.As(err, new(*UsageError)):
			return err
		case errors.Is(err, errBlocked):
			return cli.Exit("", exitBlocked)
		case errors.Is(err, errInterruptedWait):
			return cli.Exit("", exitError)
		case errors.Is(err, context.Canceled) && flags.Err() != nil:
			return cli.Exit("", exitInterrupted)
		}
		if code := endedError(0); errors.As(err, &code) {
			terminal.Printf(c.stderr, "%s\n", terminal.Text(err.Error()))
			return cli.Exit("", int(code))
		}
		terminal.Printf(c.stderr, "%s\n", terminal.Text(Explain(err)))
		return cli.Exit("", exitError)
	}
}

// misused is a command line that a command of podfall's own cannot carry out. What kubectl has
// too is refused as it refuses.
func (c *call) misused(format string, args ...any) error {
	return &UsageError{Command: nameOf(c.flags), Text: fmt.Sprintf(format, args...)}
}

// api connects at its first use, so that a mistake on the command line needs no
// cluster.
func (c *call) api(ctx context.Context) (API, error) {
	if c.session == nil {
		session, err := c.env.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c.session = session
	}
	return c.session.API, nil
}

func (c *call) close() {
	if c.session != nil && c.session.Close != nil {
		c.session.Close()
	}
}

// defaultNamespace is used when none is named.
const defaultNamespace = metav1.NamespaceDefault

// namespace is the one that names on the command line are in; explicit says that it
// was named there.
func (c *call) namespace() (name string, explicit bool) {
	if name := c.flags.String(flagNamespace); name != "" {
		return name, true
	}
	return defaultNamespace, false
}

// target is an object or a collection of the kind; cluster-scoped kinds lose the
// namespace.
func target(kind kinds.Kind, namespace, name string) podapi.Target {
	if !kind.Namespaced {
		namespace = ""
	}
	return podapi.Target{Kind: kind, Namespace: namespace, Name: name}
}

// view is how objects are printed now.
func (c *call) view() podview.View {
	return podview.View{Now: c.env.Clock.Now(), Compat: c.env.Compat}
}

// warn prints a warning as kubectl does.
func (c *call) warn(text string) {
	word := "Warning:"
	if c.env.TTY {
		word = "\x1b[33;1mWarning:\x1b[0m"
	}
	terminal.Printf(c.env.Stderr, "%s ", terminal.Text(word)) // our own word, which may be coloured
	terminal.Printf(c.stderr, "%s\n", text)
}

// Warner prints the warnings that come with the API server's answers, each text once;
// it is for podapi.Config.
func Warner(stderr io.Writer) func(text string) {
	out := terminal.Writer(stderr)
	said := map[string]bool{}
	return func(text string) {
		if !said[text] {
			said[text] = true
			terminal.Printf(out, "Warning: %s\n", text)
		}
	}
}

// qualified is an object as messages name it: "pod/web-0", "deployment.apps/web".
func qualified(kind kinds.Kind, name string) string { return kindText(kind) + "/" + name }

// kindText is a kind as messages name it: "pod", "deployment.apps".
func kindText(kind kinds.Kind) string {
	if kind.Group == "" {
		return kind.Singular
	}
	return kind.Singular + "." + kind.Group
}
