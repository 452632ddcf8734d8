package procengine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// searchPath is the PATH of a program whose manifest gives it none.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var errNoProgram = errors.New("no command specified: the container has neither a command, nor an image that names a program")

// spec is what the shim of a container is to run, or why it may not run.
func (e *Engine) spec(c engine.Container) (shim.Spec, error) {
	args := slices.Concat(c.Request.Command, c.Request.Args)
	if len(args) == 0 {
		return shim.Spec{}, errNoProgram
	}
	program, err := e.cfg.Allow.Program(args[0])
	if err != nil {
		return shim.Spec{}, err
	}
	dir := c.Request.WorkingDir
	if dir != "" {
		if dir, err = e.cfg.Allow.Directory(dir); err != nil {
			return shim.Spec{}, err
		}
	}
	for name := range c.Request.Env {
		if strings.HasPrefix(name, "LD_") || name == "GLIBC_TUNABLES" || name == "GCONV_PATH" {
			return shim.Spec{}, fmt.Errorf("variable %s is %w: it would make another program of the one that is", name, ErrNotAllowed)
		}
	}
	return shim.Spec{
		Program: program, Args: args, Dir: dir, Init: e.cfg.Init,
		Env: environment(c.ID, c.Request.Env),
	}, nil
}

// environment is what the manifest gives and nothing of the runtime's own.
func environment(id string, given map[string]string) []string {
	env := []string{shim.Marker + "=" + id}
	if given["PATH"] == "" {
		env = append(env, "PATH="+searchPath)
	}
	for name, value := range given {
		if name != shim.Marker && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00") {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}
