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

// Containers is what the runtimes may run. Its zero value is scripted containers alone.
type Containers struct {
	// AllowExec are the programs, and the directories of programs, that pods may run as
	// processes of this machine.
	AllowExec []string `json:"allowExec,omitempty"`
	// Images is the file that says what stands for an image.
	Images string `json:"images,omitempty"`
	// Handler is the engine of pods without a runtimeClassName: "scripted", which is also
	// what nothing means, or "process".
	Handler string `json:"handler,omitempty"`
	// HostPathRoot is the directory of this machine inside which pods may mount hostPath
	// volumes; empty allows none.
	HostPathRoot string `json:"hostPathRoot,omitempty"`
	// Init applies the rule of process 1 where there are no PID namespaces: a signal without
	// a handler is ignored.
	Init bool `json:"init,omitempty"`
	// Confinement is what keeps programs from the machine.
	Confinement Confinement `json:"confinement,omitzero"`
}

// arguments are those of a runtime.
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

// volumes are the arguments of a kubelet: where volumes are.
func (c Containers) volumes(layout Layout) []string {
	args := []string{"--volumes", layout.volumes()}
	if c.HostPathRoot != "" {
		args = append(args, "--host-path-root", c.HostPathRoot)
	}
	return args
}

// runtime is the directory of a node's runtime.
func (l Layout) runtime(node string) string { return filepath.Join(l.node(node), "runtime") }

// Programs is the directory of a runtime's containers that are processes.
func Programs(runtime string) string { return filepath.Join(runtime, "programs") }

// endPrograms ends what pods have run as processes of this machine: a cluster that is
// down leaves nothing running.
func (l Layout) endPrograms(ctx context.Context, progress func(string)) {
	options, err := l.Load()
	if err != nil {
		progress(err.Error())
	}
	for _, node := range options.Nodes {
		dir := Programs(l.runtime(node))
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := procengine.KillAll(context.WithoutCancel(ctx), dir); err != nil {
			progress(fmt.Sprintf("programs of %s: %v", node, err))
		}
		endCgroups(dir, progress)
	}
}
