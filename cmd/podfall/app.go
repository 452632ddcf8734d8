package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/client"
)

// process is what a command may use of the process around it.
type process struct {
	args      []string
	in        io.Reader
	out, errs io.Writer
	variable  func(name string) string
}

const (
	dataVariable = "PODFALL_DATA"
	// dialLimit is how long a command waits for the bus.
	dialLimit = 10 * time.Second
)

// newApp is every command there is, about the cluster in the layout.
func newApp(p process, layout cluster.Layout) (*cli.App, error) {
	env := client.Env{Stdin: p.in, Stdout: p.out, Stderr: p.errs, TTY: isTerminal(p.errs) && p.variable("NO_COLOR") == ""}
	env.Dial = func(ctx context.Context) (*client.Session, error) { return dial(ctx, layout, env, p.errs) }
	options, err := layout.Load()
	switch {
	case err == nil:
		if env.Clock, err = options.Clock(); err != nil {
			return nil, err
		}
		if env.Compat, err = proto.CompatFor(options.Compat); err != nil {
			return nil, err
		}
	case errors.Is(err, cluster.ErrNoCluster):
		env.Compat, _ = proto.CompatFor("")
		missing := err
		env.Dial = func(context.Context) (*client.Session, error) { return nil, missing }
	default:
		return nil, err
	}
	commands := []*cli.Command{upCommand(layout), downCommand(layout), statusCommand(layout), kubeconfigCommand(layout), superviseCommand(layout)}
	return &cli.App{
		Name: "podfall", Usage: "a Kubernetes pod-deletion emulator", Version: version,
		Flags: []cli.Flag{&cli.StringFlag{
			Name: "data", EnvVars: []string{dataVariable}, Value: ".podfall", Usage: "the cluster's data `DIRECTORY`",
		}},
		Commands: append(append(commands, client.Commands(env)...), serviceCommands()...),
		Reader:   p.in, Writer: p.out, ErrWriter: p.errs,
		HideHelpCommand: true,
		Action:          unknown,
		ExitErrHandler:  func(*cli.Context, error) {}, // run prints and decides
		OnUsageError:    func(_ *cli.Context, err error, _ bool) error { return usage("%v", err) },
	}, nil
}

// unknown answers a line without a command, or with one that does not exist.
func unknown(c *cli.Context) error {
	if !c.Args().Present() {
		return cli.ShowAppHelp(c)
	}
	name := c.Args().First()
	text := fmt.Sprintf("unknown command %q; podfall --help lists them", name)
	if near := cli.SuggestCommand(c.App.Commands, name); !strings.Contains(near, `""`) {
		text += ". " + near
	}
	return usage("%s", text)
}

// dial connects the command line to the cluster's apiserver and kubelets.
func dial(ctx context.Context, layout cluster.Layout, env client.Env, errs io.Writer) (*client.Session, error) {
	addresses, err := layout.Addresses()
	if err != nil {
		return nil, fmt.Errorf("the cluster in %s is not up: %w", layout.Root, err)
	}
	config := bus.Config{URLs: addresses.Hub, Identity: proto.Client(admin)}
	if config.Seed, err = bus.LoadSeed(layout.Keys(), config.Identity); err != nil {
		return nil, err
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, dialLimit)
	defer cancel()
	conn, err := bus.Dial(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("the cluster in %s does not answer; see podfall status: %w", layout.Root, err)
	}
	return &client.Session{
		API:   podapi.New(conn, podapi.Config{Clock: env.Clock, Warn: client.Warner(errs)}),
		Nodes: nodes{conn},
		Close: conn.Close,
	}, nil
}

// nodes reaches the kubelets over the bus.
type nodes struct{ conn *bus.Conn }

// Ask implements client.Nodes.
func (n nodes) Ask(ctx context.Context, node, verb string, request []byte) ([]byte, error) {
	return n.conn.Request(ctx, proto.Node(node), proto.NodeSubject(node, verb), request)
}

// layoutFor is the cluster that the command line is about: --data wherever it stands,
// else the environment, else .podfall here.
func layoutFor(p process) (cluster.Layout, error) {
	data := p.variable(dataVariable)
	if data == "" {
		data = ".podfall"
	}
	for i, word := range p.args {
		if word == "--" {
			break
		}
		name, value, joined := strings.Cut(word, "=")
		switch {
		case name != "--data" && name != "-data":
		case joined:
			data = value
		case i+1 < len(p.args):
			data = p.args[i+1]
		}
	}
	root, err := filepath.Abs(data)
	return cluster.Layout{Root: root}, err
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
