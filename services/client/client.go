// Package client is podfall's side of kubectl: get, describe, delete, apply and the
// rest of the commands that ask the API server, with kubectl's flags, words and exit
// codes. Start with delete.go, which is where round 1 of a deletion begins.
//
// A command reads its flags into a plan with a pure function, asks the API for what it
// needs, and prints. Nothing here decides what a request means: the API server does.
//
// # Output
//
// Data goes to standard output; messages, warnings and errors go to standard error.
// Control bytes are taken out of everything that is meant for people, so that no object
// can move the reader's cursor. Output for programs (-o json and the like) and logs are
// passed on as they are.
//
// # Exit codes
//
// As kubectl's: 0 when done, exec's command's own, 1 for every error, a timeout and a
// condition that was not met included, and also when a delete, a wait or a watch is interrupted (CLI-29). An
// interrupt anywhere else is 130. A why whose object is blocked is 3. A line that cannot be read, a [UsageError], is for the
// caller of [Arrange] to report; podfall ends with 2 then, as its own commands do, which
// distinguish more.
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Env is the world a command runs in.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Dial connects to the cluster. It is called at most once per command, and only
	// by commands that ask the cluster something.
	Dial func(ctx context.Context) (*Session, error)
	// Clock is the cluster's time, by which ages and timeouts are reckoned.
	Clock clock.Clock
	// Compat is the release whose words are used.
	Compat proto.Compat
	// TTY says that a person is at standard error who wants colour.
	TTY bool
	// Terminal is the one at standard input; nil when there is none.
	Terminal Terminal
	// History is the directory of what the cluster's processes have written down; empty
	// when it is not on this machine.
	History string
}

// Session is a connection to a cluster.
type Session struct {
	API API
	// Nodes reaches the kubelets; nil when there is no way to them.
	Nodes Nodes
	// Inspect asks a process by its name how it is, past every cut, and returns the JSON of
	// what package inspect has for it; nil when there is no way to ask.
	Inspect func(ctx context.Context, process string) ([]byte, error)
	// Past is what the processes have written down; nil when there is no way to ask.
	Past Past
	// Close ends the connection; nil when there is nothing to end.
	Close func()
}

// API is what the commands ask of the API server; *podapi.Client is one.
type API interface {
	CreateRaw(ctx context.Context, t podapi.Target, contentType string, body []byte, opts metav1.CreateOptions) (kinds.Object, error)
	Get(ctx context.Context, t podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	List(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
	Patch(ctx context.Context, t podapi.Target, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error)
	Delete(ctx context.Context, t podapi.Target, opts metav1.DeleteOptions) (runtime.Object, error)
	Watch(ctx context.Context, t podapi.Target, opts metav1.ListOptions) (watch.Interface, error)
}

// Nodes asks the kubelet of a node for what only it knows.
type Nodes interface {
	// Ask sends request to what the kubelet serves under verb: "logs".
	Ask(ctx context.Context, node, verb string, request []byte) ([]byte, error)
	// Open begins a conversation with what it serves under verb: "exec", "attach".
	Open(ctx context.Context, node, verb string, request []byte) (Conversation, error)
}

// Commands are the commands of this package.
func Commands(env Env) []*cli.Command {
	commands := []*cli.Command{
		versionCommand(env),
		whyCommand(env),
		timelineCommand(env),
		truthCommand(env),
	}
	for _, c := range commands {
		c.OnUsageError = Misused
		c.HideHelpCommand = true
	}
	return commands
}
