package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podfall/podfall/services/runtime/procengine"
)

// Containers says what the runtimes may run. The zero value allows scripted containers only.
type Containers struct {
	// AllowExec lists the programs, and directories of programs, that pods may run as processes of
	// this machine.
	AllowExec []string `json:"allowExec,omitempty"`
	// Images is the file of the image catalog.
	Images string `json:"images,omitempty"`
	// Handler is the engine of pods without a runtimeClassName: "scripted" (also if empty), or
	// "process".
	Handler string `json:"handler,omitempty"`
	// HostPathRoot is the directory inside of which pods may mount hostPath volumes; empty allows
	// none.
	HostPathRoot string `json:"hostPathRoot,omitempty"`
	// Init applies the rule of process 1 if there are no PID namespaces: signals without a handler
	// are ignored.
	Init bool `json:"init,omitempty"`
	// Confinement isolates programs from the machine.
	Confinement Confinement `json:"confinement,omitzero"`
}

// arguments returns the runtime's command-line arguments.
func (c Containers) arguments() []string {
	var args []string
	for _, path := range c.AllowExec {
		args = append(args, "--allow-exec", path)
	}
	if c.Images != "" {
		args = append(args, "--images", c.Images)
	}
	if c.Handler != "" {
		args = append(args, "--engine", c.Handler)
	}
	if !c.Init {
		args = append(args, "--pid1=false")
	}
	return append(args, c.Confinement.arguments()...)
}

// volumeArguments returns the kubelet's arguments for volume directories.
func (c Containers) volumeArguments(layout Layout) []string {
	args := []string{"--volumes", layout.volumesDir()}
	if c.HostPathRoot != "" {
		args = append(args, "--host-path-root", c.HostPathRoot)
	}
	return args
}

// runtimeDir is the data directory of a node's runtime.
func (l Layout) runtimeDir(node string) string { return filepath.Join(l.nodeDir(node), "runtime") }

// ProgramsDir returns the directory of a runtime's process containers.
func ProgramsDir(runtime string) string { return filepath.Join(runtime, "programs") }

// killPrograms kills the programs that pods have started on this machine, so that a stopped cluster
// leaves nothing running.
func (l Layout) killPrograms(ctx context.Context, progress func(string)) {
	options, err := l.Load()
	if err != nil {
		progress(err.Error())
	}
	for _, node := range options.Nodes {
		dir := ProgramsDir(l.runtimeDir(node))
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := procengine.KillAll(context.WithoutCancel(ctx), dir); err != nil {
			progress(fmt.Sprintf("programs of %s: %v", node, err))
		}
		removeCgroups(dir, progress)
	}
}
