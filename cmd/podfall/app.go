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

// process holds what a command uses of the process around it.
type process struct {
	args      []string
	in        io.Reader
	out, errs io.Writer
	getenv    func(name string) string
	// release gives the handling of interrupts back to the operating system; nil does nothing.
	release func()
	// forks gives kubectl's commands a process of their own, because their code may end its process.
	forks bool
}

const (
	dataVariable = "PODFALL_DATA"
	// dialTimeout bounds how long a command waits for the bus.
	dialTimeout = 10 * time.Second
)

// newApp returns all commands for the cluster in the layout.
func newApp(p process, layout cluster.Layout) (*cli.App, error) {
	env := client.Env{
		Stdout: p.out, Stderr: p.errs, History: layout.History(),
	}
	options, err := layout.Load()
	switch {
	case err == nil:
		schedule, err := options.Schedule()
		if err != nil {
			return nil, err
		}
		driver := clock.NewDriver(schedule)
		env.Clock = driver.Clock()
		env.Dial = func(ctx context.Context) (*client.Session, error) { return dial(ctx, layout, driver, p.errs) }
		if env.Compat, err = proto.CompatFor(options.Compat); err != nil {
			return nil, err
		}
	case errors.Is(err, cluster.ErrNoCluster):
		env.Compat, _ = proto.CompatFor("")
		missing := err
		schedule, err := clock.NewSchedule(clock.Clock{}.Now(), 1)
		if err != nil {
			return nil, err
		}
		driver := clock.NewDriver(schedule)
		env.Clock, env.History = driver.Clock(), ""
		env.Dial = func(ctx context.Context) (*client.Session, error) { return dialRemote(ctx, driver, missing) }
	default:
		return nil, err
	}
	own := []*cli.Command{
		upCommand(layout), downCommand(layout), statusCommand(layout), clockCommand(layout),
		kubeconfigCommand(layout), superviseCommand(layout), prepareCommand(layout), memberCommand(layout),
		tryCommand(p), runCommand(layout), cutCommand(layout), healCommand(layout), faultCommand(layout), verifyCommand(layout), reportCommand(layout),
	}
	own = slices.Concat(own, controlCommands(layout), serviceCommands())
	rejectExtraArguments("", own)
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
		OnUsageError:    func(_ *cli.Context, err error, _ bool) error { return usageError("%v", err) },
	}, nil
}

// rejectExtraArguments makes commands fail on invalid flag values, and on arguments if they take
// none. parents is the prefix of the command names.
func rejectExtraArguments(parents string, commands []*cli.Command) {
	for _, command := range commands {
		name := parents + command.Name
		rejectExtraArguments(name+" ", command.Subcommands)
		command.OnUsageError = client.Misused
		if command.ArgsUsage != "" {
			continue
		}
		act := command.Action
		command.Action = func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError("%s %s: want no argument", name, strings.Join(c.Args().Slice(), " "))
			}
			return act(c)
		}
	}
}

// unknownCommand refuses a command that does not exist, and suggests one of podfall's own or
// kubectl's.
func unknownCommand(own []*cli.Command, name string) error {
	text := fmt.Sprintf("unknown command %q; podfall --help lists them", name)
	if near := nearestCommand(append(own, kubectlHelp(own)...), name); near != "" {
		text += fmt.Sprintf(". Did you mean %q?", near)
	}
	return usageError("%s", text)
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

// dial connects the command line to the cluster's apiserver and kubelets, and its clock to the
// cluster's clock.
func dial(ctx context.Context, layout cluster.Layout, driver *clock.Driver, errs io.Writer) (*client.Session, error) {
	conn, err := dialHub(ctx, layout)
	if err != nil {
		return nil, err
	}
	stop := followClock(ctx, conn, driver)
	return &client.Session{
		API: podapi.New(conn, podapi.Config{Clock: driver.Clock(), Warn: client.Warner(errs)}),
		Inspect: func(ctx context.Context, process string) ([]byte, error) {
			return mgmt.NewClient(conn).Inspect(ctx, process, nil)
		},
		Past: processHistories{mgmt.NewClient(conn)},
		Close: func() {
			stop()
			conn.Close()
		},
	}, nil
}

// processHistories reads the processes' histories over the bus.
type processHistories struct{ *mgmt.Client }

// Processes implements client.Past.
func (p processHistories) Processes(ctx context.Context) ([]string, error) {
	state, err := p.Get(ctx)
	return processNames(state), err
}

// findLayout returns the layout of the cluster named by --data, else by the environment, else
// .podfall here.
func findLayout(p process) (cluster.Layout, error) {
	data := p.getenv(dataVariable)
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
