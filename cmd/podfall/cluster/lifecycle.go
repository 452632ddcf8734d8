package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Create makes the data directory of a new cluster with its keys, or takes over what
// is there: a cluster that is brought up again keeps what it was made with, and asked
// must not differ from it.
func (l Layout) Create(asked Options, keys func(Layout, Options) error) (Options, error) {
	options, err := l.Load()
	switch {
	case errors.Is(err, ErrNoCluster):
		if err := l.create(asked); err != nil {
			return Options{}, err
		}
		return asked, keys(l, asked)
	case err != nil:
		return Options{}, err
	}
	if difference := options.differs(asked); difference != "" {
		return Options{}, fmt.Errorf("%s holds a cluster with another %s; remove it first with `podfall down --purge`", l.Root, difference)
	}
	return options, keys(l, options)
}

// differs names the first option that is not as asked.
func (o Options) differs(asked Options) string {
	switch {
	case len(o.Nodes) != len(asked.Nodes):
		return fmt.Sprintf("number of nodes (%d, not %d)", len(o.Nodes), len(asked.Nodes))
	case o.Speed != asked.Speed:
		return fmt.Sprintf("speed (%v, not %v)", o.Speed, asked.Speed)
	case o.Compat != asked.Compat:
		return fmt.Sprintf("release (%s, not %s)", o.Compat, asked.Compat)
	case o.Timing != asked.Timing:
		return fmt.Sprintf("timing (%s, not %s)", o.Timing, asked.Timing)
	}
	return ""
}

// Detach starts a supervisor that outlives this process and waits until the cluster is
// ready. Each line of progress is passed on. If the cluster has a supervisor already,
// that one is asked to start what has ended.
func (l Layout) Detach(ctx context.Context, progress func(string)) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	output, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(executable, "supervise", "--data", l.Root, "--ready-fd", strconv.Itoa(readyFD))
	command.ExtraFiles = []*os.File{told}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = command.Start()
	_ = told.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = command.Process.Signal(syscall.SIGTERM) })
	defer stop()
	last := ""
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if last = lines.Text(); last == "ready" {
			return command.Process.Release()
		}
		progress(last)
	}
	if err := command.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the supervisor ended: %w", err)
	}
	return ctx.Err()
}

// Down stops the cluster's supervisor, and so its processes, and whatever an earlier
// supervisor left. It returns when nothing runs any more.
func (l Layout) Down(ctx context.Context, progress func(string)) error {
	records, err := l.Records()
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Name == supervisorName && record.Alive() {
			// Its children have patience each, stage by stage.
			if err := record.Stop(ctx, 4*patience); err != nil {
				return fmt.Errorf("stop the supervisor: %w", err)
			}
			progress("supervisor stopped")
		}
	}
	return l.StopLeftovers(ctx, progress)
}

// Purge removes a stopped cluster's data directory, and refuses a directory that holds
// anything that up does not make.
func (l Layout) Purge() error {
	if _, err := l.Load(); err != nil {
		return err
	}
	entries, err := os.ReadDir(l.Root)
	if err != nil {
		return err
	}
	ours := " cluster.json keys run log apiserver nodes "
	for _, entry := range entries {
		if !strings.Contains(ours, " "+entry.Name()+" ") {
			return fmt.Errorf("%s holds %s, which podfall did not make: nothing was removed", l.Root, entry.Name())
		}
	}
	return os.RemoveAll(l.Root)
}

// Process is what status says of one.
type Process struct {
	Name  string `json:"name"`
	PID   int    `json:"pid,omitempty"`
	State string `json:"state"`
}

// Status lists the processes that the cluster should have, and whether they run.
func (l Layout) Status(options Options) ([]Process, error) {
	records, err := l.Records()
	if err != nil {
		return nil, err
	}
	byName := map[string]Record{}
	for _, record := range records {
		byName[record.Name] = record
	}
	names := []string{supervisorName}
	for _, stage := range Plan(l, options) {
		for _, member := range stage {
			names = append(names, member.Name)
		}
	}
	processes := make([]Process, 0, len(names))
	for _, name := range names {
		process := Process{Name: name, State: "stopped"}
		if record, known := byName[name]; known && record.Alive() {
			process.PID, process.State = record.PID, "running"
		} else if known {
			process.State = "ended"
		}
		processes = append(processes, process)
	}
	return processes, nil
}
