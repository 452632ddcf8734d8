package main

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/images"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// containerFlags are those of up and of a runtime, about what pods run.
func containerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "allow-exec", Usage: "let pods run the program at this `PATH`, or any program below it, on this machine"},
		&cli.StringFlag{Name: "images", Usage: "the `FILE` that says which program or script stands for an image"},
		&cli.StringFlag{Name: "engine", Usage: "what runs pods without a runtimeClassName: scripted or process"},
		&cli.BoolFlag{Name: "pid1", Usage: "let processes ignore the signals for which they have no handler, as the first one of a container does"},
	}
}

// containersOf is what the command line allows. Programs of manifests never run as root
// of a machine that is anybody's own.
func containersOf(c *cli.Context) (cluster.Containers, error) {
	what := cluster.Containers{Images: c.String("images"), Handler: c.String("engine"), Init: c.Bool("pid1")}
	if what.Handler != "" && what.Handler != runtime.HandlerScripted && what.Handler != runtime.HandlerProcess {
		return what, usage("--engine %q: want scripted or process", what.Handler)
	}
	allowance, err := procengine.NewAllowance(c.StringSlice("allow-exec"))
	if err != nil {
		return what, usage("--allow-exec: %v", err)
	}
	what.AllowExec = allowance.Paths()
	if _, err := readImages(what.Images); err != nil {
		return what, usage("--images: %v", err)
	}
	return what, nil
}

func readImages(file string) (*images.Book, error) {
	if file == "" {
		return nil, nil
	}
	return images.Read(file)
}

// containers is what a runtime runs containers with.
type containers struct {
	engines map[string]engine.Engine
	handler string
	images  *images.Book
}

func newContainers(c *cli.Context, s self) (containers, error) {
	what, err := containersOf(c)
	if err != nil {
		return containers{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return containers{}, err
	}
	allowance, err := procengine.NewAllowance(what.AllowExec)
	if err != nil {
		return containers{}, err
	}
	processes, err := procengine.New(procengine.Config{
		Clock: s.clock, Dir: cluster.Programs(c.String("data")), Shim: []string{self, "shim"}, Allow: allowance,
		Init: what.Init, Log: s.log,
	})
	if err != nil {
		return containers{}, err
	}
	book, err := readImages(what.Images)
	if err != nil {
		return containers{}, err
	}
	return containers{
		engines: map[string]engine.Engine{runtime.HandlerProcess: processes}, handler: what.Handler, images: book,
	}, nil
}

// shimCommand is the process between a runtime and a program.
func shimCommand() *cli.Command {
	return &cli.Command{
		Name: "shim", Usage: "hold one program for a runtime", ArgsUsage: "DIRECTORY", Hidden: true,
		Action: func(c *cli.Context) error {
			listening := os.NewFile(3, "listening") // a pipe that the runtime reads until it is closed
			return shim.Run(c.Context, c.Args().First(), func() { _ = listening.Close() })
		},
	}
}
