package main

import (
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/services/runtime"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/images"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// containerFlags returns the flags of up and runtime about what pods may run.
func containerFlags() []cli.Flag {
	return append(confinementFlags(),
		&cli.StringSliceFlag{Name: "allow-exec", Usage: "let pods run the program at this `PATH`, or any program below it, on this machine"},
		&cli.StringFlag{Name: "images", Usage: "the `FILE` that says which program or script stands for an image"},
		&cli.StringFlag{Name: "engine", Usage: "what runs pods without a runtimeClassName: scripted or process"},
		&cli.BoolFlag{Name: "pid1", Value: true, Usage: "let processes ignore the signals for which they have no handler, as the first one of a container does, where there are no PID namespaces"},
	)
}

// parseContainers reads the container flags.
func parseContainers(c *cli.Context) (cluster.Containers, error) {
	what := cluster.Containers{Images: c.String("images"), Handler: c.String("engine"), Init: c.Bool("pid1")}
	if what.Handler != "" && what.Handler != runtime.HandlerScripted && what.Handler != runtime.HandlerProcess {
		return what, usageError("--engine %q: want scripted or process", what.Handler)
	}
	allowlist, err := procengine.NewAllowlist(c.StringSlice("allow-exec"))
	if err != nil {
		return what, usageError("--allow-exec: %v", err)
	}
	what.AllowExec = allowlist.Given()
	if what.Confinement, err = parseConfinement(c, what.AllowExec); err != nil {
		return what, err
	}
	if _, err := readImages(what.Images); err != nil {
		return what, usageError("--images: %v", err)
	}
	return what, nil
}

func readImages(file string) (*images.Catalog, error) {
	if file == "" {
		return nil, nil
	}
	return images.ReadFile(file)
}

// containers holds a runtime's engines and images.
type containers struct {
	engines map[string]engine.Engine
	handler string
	images  *images.Catalog
	// programs describes how real programs run; empty if none may run.
	programs string
}

func newContainers(c *cli.Context, s service) (containers, error) {
	what, err := parseContainers(c)
	if err != nil {
		return containers{}, err
	}
	processes, how, err := newProcessEngine(c, s, what)
	if err != nil {
		return containers{}, err
	}
	catalog, err := readImages(what.Images)
	if err != nil {
		return containers{}, err
	}
	return containers{
		engines: map[string]engine.Engine{runtime.HandlerProcess: processes}, handler: what.Handler, images: catalog, programs: how,
	}, nil
}

// hostPathFlag is a flag of up and kubelet.
func hostPathFlag() cli.Flag {
	return &cli.StringFlag{Name: "host-path-root", Usage: "let pods mount the `DIRECTORY`, and what is below it, as hostPath volumes"}
}

// parseHostPathRoot returns the allowed hostPath directory as an absolute path without links; empty
// if there is none.
func parseHostPathRoot(c *cli.Context) (string, error) {
	named := c.String("host-path-root")
	if named == "" {
		return "", nil
	}
	path, err := filepath.Abs(named)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", usageError("--host-path-root: %v", err)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", usageError("--host-path-root %q: want a directory", named)
	}
	return path, nil
}

// shimCommand runs the process between a runtime and a program.
func shimCommand() *cli.Command {
	return &cli.Command{
		Name: "shim", Usage: "hold one program for a runtime", ArgsUsage: "DIRECTORY", Hidden: true,
		Action: func(c *cli.Context) error {
			listening := os.NewFile(3, "listening") // a pipe that the runtime reads until it is closed
			return shim.Run(c.Context, c.Args().First(), func() { _ = listening.Close() })
		},
	}
}
