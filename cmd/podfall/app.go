package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/client"
)

// process is what a command may use of the process around it.
type process struct {
	args      []string
	in        io.Reader
	out, errs io.Writer
	variable  func(name string) string
	// release gives the handling of interrupts back to the operating system; nil does nothing.
	release func()
	// forks gives kubectl's commands a process of their own, because their code may end its process.
	forks bool
}

const (
	dataVariable = "PODFALL_DATA"
	// dialLimit is how long a command waits for the bus.
	dialLimit = 10 * time.Second
)

// newApp is every command there is, about the cluster in the layout.
func newApp(p process, layout cluster.Layout) (*cli.App, error) {
	env := client.Env{
		Stdout: p.out, Stderr: p.errs, History: layout.History(),
	}
	options, err := layout.Load()
	switch {
	case err == nil:
		face, err := options.Face()
		if err != nil {
			return nil, err
		}
		movement := clock.NewMovement(face)
		env.Clock = movement.Clock()
		env.Dial = func(ctx context.Context) (*client.Session, error) { return dial(ctx, layout, movement, p.errs) }
		if env.Compat, err = proto.CompatFor(options.Compat); err != nil {
			return nil, err
		}
	case errors.Is(err, cluster.ErrNoCluster):
		env.Compat, _ = proto.CompatFor("")
		missing := err
		face, err := clock.NewFace(clock.Clock{}.Now(), 1)
		if err != nil {
			return nil, err
		}
		movement := clock.NewMovement(face)
		env.Clock, env.History = movement.Clock(), ""
		env.Dial = func(ctx context.Context) (*client.Session, error) { return dialFar(ctx, movement, missing) }
	default:
		return nil, err
	}
	own := []*cli.Command{
		upCommand(layout), downCommand(layout), statusCommand(layout), clockCommand(layout),
		kubeconfigCommand(layout), superviseCommand(layout), prepareCommand(layout), memberCommand(layout),
		tryCommand(p), runCommand(layout), cutCommand(layout), healCommand(layout), faultCommand(layout), verifyCommand(layout), reportCommand(layout),
	}
	own = slices.Concat(own, controlCommands(layout), serviceCommands())
	strict("", own)
	return &cli.App{
		Name: "podfall", Usage: "a Kubernetes pod-deletion emulator", Version: buildVersion(),
		Flags: []cli.Flag{&cli.StringFlag{
			Name: "data", EnvVars: []string{dataVariable}, Value: ".podfall", Usage: "the cluster's data `DIRECTORY`",
		}},
		Commands: append(own, client.Commands(env)...),
		Reader:   p.in, Writer: terminal.Writer(p.out), ErrWriter: terminal.Writer(p.errs),
		HideHelpCommand: true,
		Action:          cli.ShowAppHelp,
		ExitErrHandler:  func(*cli.Context, error) {}, // run prints and decides
		OnUsageError:    func(_ *cli.Context, err error, _ bool) error { return usage("%v", err) },
	}, nil
}

// strict has the commands refuse, before they do anything, values that flags cannot have and
// words where none is wanted. The commands are called by their names behind those of their parents.
func strict(parents string, commands []*cli.Command) {
	for _, command := range commands {
		name := parents + command.Name
		strict(name+" ", command.Subcommands)
		command.OnUsageError = client.Misused
		if command.ArgsUsage != "" {
			continue
		}
		act := command.Action
		command.Action = func(c *cli.Context) error {
			if c.Args().Present() {
				return usage("%s %s: want no argument", name, strings.Join(c.Args().Slice(), " "))
			}
			return act(c)
		}
	}
}

// unknown refuses a command that does not exist, and suggests one of podfall's own or kubectl's.
func unknown(own []*cli.Command, name string) error {
	text := fmt.Sprintf("unknown command %q; podfall --help lists them", name)
	if near := nearestCommand(append(own, kubectlHelp(own)...), name); near != "" {
		text += fmt.Sprintf(". Did you mean %q?", near)
	}
	return usage("%s", text)
}

// maxTypos is how many letters a suggested command may differ by.
const maxTypos = 2

// nearestCommand returns the visible command whose name differs from the word by the fewest
// inserted, removed or changed letters; empty if all differ by more than maxTypos.
func nearestCommand(commands []*cli.Command, word string) string {
	nearest, fewest := "", maxTypos+1
	for _, command := range commands {
		if command.Hidden || command.Category != "" && command.Category != kubectlCategory {
			continue
		}
		for _, name := range command.Names() {
			if typos := smetrics.WagnerFischer(word, name, 1, 1, 1); typos < min(fewest, len(word)) {
				nearest, fewest = name, typos
			}
		}
	}
	return nearest
}

// dial connects the command line to the cluster's apiserver and kubelets, and the clock of
// this process to the cluster's.
func dial(ctx context.Context, layout cluster.Layout, movement *clock.Movement, errs io.Writer) (*client.Session, error) {
	conn, err := dialHub(ctx, layout)
	if err != nil {
		return nil, err
	}
	stop := follow(ctx, conn, movement)
	return &client.Session{
		API: podapi.New(conn, podapi.Config{Clock: movement.Clock(), Warn: client.Warner(errs)}),
		Inspect: func(ctx context.Context, process string) ([]byte, error) {
			return mgmt.NewClient(conn).Inspect(ctx, process, nil)
		},
		Past: plane{mgmt.NewClient(conn)},
		Close: func() {
			stop()
			conn.Close()
		},
	}, nil
}

// plane asks the processes over the bus.
type plane struct{ *mgmt.Client }

// Processes implements client.Past.
func (p plane) Processes(ctx context.Context) ([]string, error) {
	board, err := p.Get(ctx)
	return processesOf(board), err
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
