package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
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
		case errors.Is(err, context.Canceled) && flags.Err() != nil:
			return cli.Exit("", exitInterrupted)
		}
		terminal.Printf(c.stderr, "%s\n", terminal.Text(explainError(err)))
		return cli.Exit("", exitError)
	}
}

// misused is a command line that a command cannot carry out.
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

// listAll reads a list page by page.
func listAll(ctx context.Context, api API, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error) {
	all, err := api.List(ctx, t, opts)
	if err != nil {
		return nil, err
	}
	for next := all.Continue; next != ""; {
		opts.Continue, opts.ResourceVersion = next, ""
		page, err := api.List(ctx, t, opts)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, page.Items...)
		next = page.Continue
	}
	return all, nil
}
