// Package client is what podfall says beside kubectl: why an object is still there, the timeline of
// a deletion, and the truth of the API beside that of the nodes. kubectl's own commands are in
// cmd/podfall/kubectl.
//
// # Output
//
// Data goes to standard output; messages, warnings and errors go to standard error.
// Control bytes are taken out of everything that is meant for people, so that no object
// can move the reader's cursor.
//
// # Exit codes
//
// As kubectl's: 0 when done, 1 for every error. An interrupt is 130. A why whose object is
// blocked is 3. A line that cannot be read, a [UsageError], is for the caller of [Arrange] to
// report; podfall ends with 2 then.
//
// # Order
//
// Flags may stand anywhere on the line; [Arrange] puts them first, which the flag
// parser needs.
package client

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Env is the world a command runs in.
type Env struct {
	Stdout io.Writer
	Stderr io.Writer
	// Dial connects to the cluster. It is called at most once per command, and only
	// by commands that ask the cluster something.
	Dial func(ctx context.Context) (*Session, error)
	// Clock is the cluster's time, by which ages and timeouts are reckoned.
	Clock clock.Clock
	// Compat is the release whose words are used.
	Compat proto.Compat
	// History is the directory of what the cluster's processes have written down; empty
	// when it is not on this machine.
	History string
}

// Session is a connection to a cluster.
type Session struct {
	API API
	// Inspect asks a process by its name how it is, past every cut, and returns the JSON of
	// what package inspect has for it; nil when there is no way to ask.
	Inspect func(ctx context.Context, process string) ([]byte, error)
	// Past is what the processes have written down; nil when there is no way to ask.
	Past HistorySource
	// Close ends the connection; nil when there is nothing to end.
	Close func()
}

// API is what the commands ask of the API server; *podapi.Client is one.
type API interface {
	Get(ctx context.Context, t podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	List(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
}

// Commands are the commands of this package.
func Commands(env Env) []*cli.Command {
	commands := []*cli.Command{versionCommand(env), whyCommand(env), timelineCommand(env), truthCommand(env)}
	for _, c := range commands {
		c.OnUsageError = Misused
		c.HideHelpCommand = true
	}
	return commands
}
