package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/cgroups"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// confinementFlags returns the flags of up and runtime that isolate real programs.
func confinementFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "isolation", Value: "auto", Usage: "auto gives programs PID and mount namespaces of their own where this machine lets its user; none does not"},
		&cli.StringFlag{Name: "exec-user", Usage: "the `UID[:GID]` that programs get when podfall is root; 65534 unless said"},
		&cli.BoolFlag{Name: "i-am-in-a-container", Usage: "let root run the programs of manifests, because this machine is nobody's own"},
	}
}

// parseConfinement reads the confinement flags. Programs of manifests never run as root on a
// machine that is not a container (T19).
func parseConfinement(c *cli.Context, allowed []string) (cluster.Confinement, error) {
	what := cluster.Confinement{User: c.String("exec-user"), InContainer: c.Bool("i-am-in-a-container")}
	switch isolation := c.String("isolation"); isolation {
	case "auto":
	case "none":
		what.Isolation = isolation
	default:
		return what, usageError("--isolation %q: want auto or none", isolation)
	}
	if _, err := programUser(what); err != nil {
		return what, err
	}
	if len(allowed) > 0 && os.Geteuid() == 0 && !what.InContainer {
		return what, usageError("--allow-exec as root: programs of manifests would run beside those of everybody on this machine; " +
			"start podfall as another user, or say --i-am-in-a-container where the machine is a container")
	}
	return what, nil
}

// programUser returns the user of programs; nil means podfall's user.
func programUser(what cluster.Confinement) (*launch.User, error) {
	if os.Geteuid() != 0 {
		if what.User != "" {
			return nil, usageError("--exec-user %s: only root can run programs as another user", what.User)
		}
		return nil, nil
	}
	const nobody = 65534
	user := launch.User{UID: nobody, GID: nobody}
	if what.User == "" {
		return &user, nil
	}
	uid, gid, both := strings.Cut(what.User, ":")
	if !both {
		gid = uid
	}
	for text, number := range map[*string]*int{&uid: &user.UID, &gid: &user.GID} {
		parsed, err := strconv.ParseUint(*text, 10, 31)
		if err != nil || parsed == 0 {
			return nil, usageError("--exec-user %q: want a UID or UID:GID, of numbers from 1", what.User)
		}
		*number = int(parsed)
	}
	return &user, nil
}

// newProcessEngine returns the engine of real programs. how describes how programs run here; it is
// empty if none may run.
func newProcessEngine(c *cli.Context, s service, what cluster.Containers) (programs *procengine.Engine, how string, err error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	allowlist, err := procengine.NewAllowlist(what.AllowExec)
	if err != nil {
		return nil, "", err
	}
	user, err := programUser(what.Confinement)
	if err != nil {
		return nil, "", err
	}
	data := c.String("data")
	cfg := procengine.Config{
		Clock: s.clock, Dir: cluster.ProgramsDir(data), Shim: []string{executable, "shim"}, Launch: []string{executable, "launch"},
		Allow: allowlist, Init: what.Init, Journal: filepath.Join(data, "signals.ndjson"), Log: s.log,
		Isolation: procengine.Isolation{User: user, Refused: "--isolation none"},
	}
	if len(what.AllowExec) == 0 {
		programs, err = procengine.New(cfg)
		return programs, "", err
	}
	if what.Confinement.Isolation != "none" {
		cfg.Isolation = procengine.DetectIsolation(c.Context, cfg.Launch, user)
	}
	groups, err := cgroups.Open(cluster.CgroupName(cfg.Dir))
	if err == nil {
		cfg.Cgroups = groups
	}
	bounds := groups.String()
	if err != nil {
		bounds = fmt.Sprintf("none (%v)", err)
	}
	s.log.InfoContext(c.Context, "programs may run", "allowed", allowlist.Paths(), "how", cfg.Isolation.String(), "cgroups", bounds)
	programs, err = procengine.New(cfg)
	return programs, cfg.Isolation.String() + "; cgroups: " + bounds, err
}

// launchCommand runs in a program's process before the program is executed.
func launchCommand() *cli.Command {
	return &cli.Command{
		Name: "launch", Usage: "become a program, for a shim", Hidden: true,
		Action: func(*cli.Context) error { return launch.Run() },
	}
}
