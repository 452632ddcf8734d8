package procengine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine/cgroups"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// searchPath is the default PATH of a program.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var errNoProgram = errors.New("no command specified: the container has neither a command, nor an image that names a program")

// buildSpec returns what the shim of a container must run, or why the program may not run.
func (e *Engine) buildSpec(c engine.Container) (shim.Spec, error) {
	args := slices.Concat(c.Request.Command, c.Request.Args)
	if len(args) == 0 {
		return shim.Spec{}, errNoProgram
	}
	program, err := e.cfg.Allow.ResolveProgram(args[0])
	if err != nil {
		return shim.Spec{}, err
	}
	dir := c.Request.WorkingDir
	if dir != "" && !e.isMounted(c.Request, dir) {
		if dir, err = e.cfg.Allow.ResolveDirectory(dir); err != nil {
			return shim.Spec{}, err
		}
	}
	for name := range c.Request.Env {
		if strings.HasPrefix(name, "LD_") || name == "GLIBC_TUNABLES" || name == "GCONV_PATH" {
			return shim.Spec{}, fmt.Errorf("variable %s is %w: it would make another program of the one that is", name, ErrNotAllowed)
		}
	}
	spec := shim.Spec{
		Program: program, Args: args, Dir: dir, Env: buildEnv(c.ID, c.Request.Env),
		Launch: e.cfg.Launch, User: e.cfg.Isolation.User, Journal: e.cfg.Journal,
		Limits: e.shimLimits(c),
		Stdio:  shim.Stdio{Stdin: c.Request.Stdin, StdinOnce: c.Request.StdinOnce, TTY: c.Request.Tty},
	}
	var mounts []launch.Mount
	for _, mount := range c.Request.Mounts {
		mounts = append(mounts, launch.Mount{Host: mount.HostPath, Container: mount.ContainerPath, ReadOnly: mount.ReadOnly})
	}
	switch {
	case e.cfg.Isolation.Namespaces:
		spec.Namespaces = &shim.Namespaces{Mounts: mounts, Protected: e.protectedPaths()}
		return spec, nil
	case e.cfg.Isolation.User != nil: // that user cannot enter the kubelet's directories
		spec.Volumes = mounts
	default:
		spec.Env = append(spec.Env, mountsEnv(c.Request.Mounts)...)
	}
	spec.Init = e.cfg.Init
	return spec, nil
}

// isMounted reports whether a directory is a mount of the container or inside one.
func (e *Engine) isMounted(req *proto.CreateContainerRequest, dir string) bool {
	return e.cfg.Isolation.Namespaces && slices.ContainsFunc(req.Mounts, func(mount *proto.Mount) bool {
		below, err := filepath.Rel(mount.ContainerPath, dir)
		return err == nil && filepath.IsLocal(below)
	})
}

// protectedPaths returns the paths that no mount may hide. Such a mount could replace an allowed
// program or a file that the program loads.
func (e *Engine) protectedPaths() []string {
	return append(e.cfg.Allow.Paths(),
		"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32",
		"/usr/libexec", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib",
		"/etc/ld.so.preload", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/proc", "/sys")
}

// mountsEnv returns the environment variable that tells a program where its volumes are on the
// host. It is for programs without mount namespace that run as the runtime's user.
func mountsEnv(mounts []*proto.Mount) []string {
	if len(mounts) == 0 {
		return nil
	}
	var lines []string
	for _, mount := range mounts {
		lines = append(lines, mount.ContainerPath+"="+mount.HostPath)
	}
	return []string{launch.MountsVariable + "=" + strings.Join(lines, "\n")}
}

// Limits on processes: of a container with its own user namespace, and of all programs together
// that run as one user of the machine.
const (
	maxContainerProcesses = 1 << 12
	maxUserProcesses      = 1 << 15
)

// shimLimits returns the limits that the shim applies to a container.
func (e *Engine) shimLimits(c engine.Container) shim.Limits {
	var limits shim.Limits
	switch {
	case e.cfg.Isolation.UserNamespace:
		limits.Processes = maxContainerProcesses
	case e.cfg.Isolation.User != nil:
		limits.Processes = maxUserProcesses
	}
	limits.Cgroup = e.cfg.Cgroups.Path(c.Request.CgroupParent, c.ID)
	if !e.cfg.Cgroups.HasController(cgroups.Memory) {
		limits.Memory = c.Request.Resources.GetMemoryLimitInBytes()
	}
	return limits
}

// buildEnv returns the manifest's variables and nothing of the runtime's own environment.
func buildEnv(id string, given map[string]string) []string {
	env := []string{shim.Marker + "=" + id}
	if given["PATH"] == "" {
		env = append(env, "PATH="+searchPath)
	}
	for name, value := range given {
		if name != shim.Marker && name != launch.MountsVariable && !strings.ContainsAny(name, "=\x00") && !strings.Contains(value, "\x00") {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}
