package cluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// Create creates the data directory of a new cluster with its keys, or loads an existing one. An
// existing cluster keeps its options, and asked must not differ from them.
func (l Layout) Create(requested Options, keys func(Layout, Options) error) (Options, error) {
	options, err := l.Load()
	switch {
	case errors.Is(err, ErrNoCluster):
		if err := l.createDirs(requested); err != nil {
			return Options{}, err
		}
		return requested, keys(l, requested)
	case err != nil:
		return Options{}, err
	}
	if difference := options.difference(requested); difference != "" {
		return Options{}, fmt.Errorf("%s holds a cluster with another %s; remove it first with `podfall down --purge`", l.Root, difference)
	}
	return options, keys(l, options)
}

// difference describes the first option that differs from asked.
func (o Options) difference(requested Options) string {
	switch {
	case o.Name != requested.Name:
		return fmt.Sprintf("name (%s, not %s)", o.Name, requested.Name)
	case len(o.Nodes) != len(requested.Nodes):
		return fmt.Sprintf("number of nodes (%d, not %d)", len(o.Nodes), len(requested.Nodes))
	case o.Speed != requested.Speed:
		return fmt.Sprintf("first speed (%v, not %v; `podfall clock --speed` changes it while the cluster runs)", o.Speed, requested.Speed)
	case o.Compat != requested.Compat:
		return fmt.Sprintf("release (%s, not %s)", o.Compat, requested.Compat)
	case !reflect.DeepEqual(o.Containers, requested.Containers):
		return fmt.Sprintf("choice of what containers may run (%s)", cmp.Or(strings.Join(o.Containers.arguments(), " "), "scripts"))
	case !slices.Equal(o.KubeletArguments, requested.KubeletArguments):
		return "set of kubelet arguments"
	case o.Timing != requested.Timing:
		return fmt.Sprintf("timing (%s, not %s)", o.Timing, requested.Timing)
	case o.Port != requested.Port:
		return fmt.Sprintf("port (%s, not %d)", o.portText(), requested.Port)
	case !slices.Equal(o.Controllers, requested.Controllers):
		return "set of controllers"
	case !slices.Equal(o.DisablePlugins, requested.DisablePlugins):
		return "set of admission plugins"
	case !slices.Equal(o.ExternalBus, requested.ExternalBus):
		return fmt.Sprintf("bus (%s, not %s)", o.busText(), requested.busText())
	}
	return ""
}

// portText describes the gateway's port.
func (o Options) portText() string {
	if o.Port == 0 {
		return "a free one"
	}
	return strconv.Itoa(o.Port)
}

// busText describes the NATS server in use.
func (o Options) busText() string {
	if len(o.ExternalBus) == 0 {
		return "its own"
	}
	return strings.Join(o.ExternalBus, ",")
}

// Detach starts a supervisor that outlives this process, and waits until the cluster is ready. Each
// line of progress is passed on. If the cluster has a supervisor, Detach asks it to start what has
// ended.
func (l Layout) Detach(ctx context.Context, progress func(string)) error {
	supervisor, err := l.supervisorRecord()
	if err != nil {
		return err
	}
	if supervisor.Alive() {
		return l.requestStart(ctx, supervisor, nil, progress)
	}
	command, output, err := l.launch(supervisorName, []string{"supervise", "--data", l.Root}, nil)
	if err != nil {
		return err
	}
	defer output.Close()
	return awaitSupervisor(ctx, command, output, progress)
}

// What is written on the pipe of a process that starts. All else is progress.
const (
	// LineReady means that the process is ready.
	LineReady = "ready"
	// LineFailed precedes the reason of a failed start, which takes the rest of the output.
	LineFailed = "failed: "
)

// awaitSupervisor passes on a starting supervisor's lines until it is ready or has failed.
func awaitSupervisor(ctx context.Context, supervisor *exec.Cmd, output io.Reader, progress func(string)) error {
	stop := context.AfterFunc(ctx, func() { _ = supervisor.Process.Signal(syscall.SIGTERM) })
	defer stop()
	var reason []string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		line := lines.Text()
		text, failed := strings.CutPrefix(line, LineFailed)
		switch {
		case line == LineReady:
			return supervisor.Process.Release()
		case failed || len(reason) > 0:
			reason = append(reason, text)
		default:
			progress(line)
		}
	}
	err := supervisor.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(reason) > 0:
		return errors.New(strings.Join(reason, "\n"))
	}
	return fmt.Errorf("the supervisor ended: %w", err)
}

// supervisorRecord returns the supervisor's record, or the zero Record, which is not alive.
func (l Layout) supervisorRecord() (Record, error) {
	records, err := l.recordsByName()
	return records[supervisorName], err
}

// SignalStart asks a supervisor to start what has ended.
const SignalStart = syscall.SIGUSR1

// requestStart asks the supervisor to start what has ended, and waits until the named processes are
// ready. No names means all.
func (l Layout) requestStart(ctx context.Context, supervisor Record, names []string, progress func(string)) error {
	options, err := l.Load()
	if err != nil {
		return err
	}
	before, err := l.recordsByName()
	if err != nil {
		return err
	}
	if err := l.writeStartRequest(names); err != nil {
		return err
	}
	if err := supervisor.Signal(SignalStart); err != nil {
		return err
	}
	for _, stage := range Plan(l, options) {
		for _, member := range stage {
			if len(names) > 0 && !slices.Contains(names, member.Name) {
				continue
			}
			if err := l.awaitRestart(ctx, member, before[member.Name], supervisor); err != nil {
				return err
			}
			if now, err := l.recordsByName(); err == nil && now[member.Name].PID != before[member.Name].PID {
				progress(fmt.Sprintf("%s ready (pid %d)", member.Name, now[member.Name].PID))
			}
		}
	}
	return nil
}

// awaitRestart waits until a member is ready. before is its record from before the request.
func (l Layout) awaitRestart(ctx context.Context, member Member, before, supervisor Record) error {
	for {
		now, err := l.recordsByName()
		if err != nil {
			return err
		}
		record := now[member.Name]
		switch alive := record.Alive(); {
		case alive && record.Ready:
			return nil
		case !alive && record.PID != 0 && record.PID != before.PID:
			return fmt.Errorf("%s ended before it was ready; the end of %s:\n%s", member.Name, l.logFile(member.Name),
				strings.Join(l.lastLogLines(member.Name, 3), "\n"))
		case !supervisor.Alive():
			return errors.New("the supervisor has ended")
		}
		if err := (clock.Clock{}).Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (l Layout) recordsByName() (map[string]Record, error) {
	records, err := l.Records()
	if err != nil {
		return nil, err
	}
	named := map[string]Record{}
	for _, record := range records {
		named[record.Name] = record
	}
	return named, nil
}

// Down stops the cluster's supervisor with its processes, and what an earlier supervisor left. It
// returns when nothing runs any more.
func (l Layout) Down(ctx context.Context, progress func(string)) error {
	supervisor, err := l.supervisorRecord()
	if err != nil {
		return err
	}
	if supervisor.Alive() {
		// Its children get stopTimeout each, stage by stage.
		if err := supervisor.Stop(ctx, 4*stopTimeout); err != nil {
			return fmt.Errorf("stop the supervisor: %w", err)
		}
		progress("supervisor stopped")
	}
	err = l.StopLeftovers(ctx, progress)
	l.killPrograms(ctx, progress)
	return err
}

// Purge removes a stopped cluster's data directory. It refuses if the directory contains anything
// that up does not make.
func (l Layout) Purge() error {
	if _, err := l.Load(); err != nil {
		return err
	}
	entries, err := os.ReadDir(l.Root)
	if err != nil {
		return err
	}
	ours := " cluster.json board.json kubeconfig keys run log history apiserver gateway volumes nodes "
	for _, entry := range entries {
		if !strings.Contains(ours, " "+entry.Name()+" ") {
			return fmt.Errorf("%s holds %s, which podfall did not make: nothing was removed", l.Root, entry.Name())
		}
	}
	return os.RemoveAll(l.Root)
}

// Process is the status of one process.
type Process struct {
	Name  string `json:"name"`
	PID   int    `json:"pid,omitempty"`
	State string `json:"state"`
	// Address is the listen address of a running process, if others connect to it.
	Address string `json:"address,omitempty"`
}

// Status lists the processes that the cluster should have, and their states.
func (l Layout) Status(options Options) ([]Process, error) {
	byName, err := l.recordsByName()
	if err != nil {
		return nil, err
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
			if record.paused() {
				process.State = "paused"
			}
			process.Address = l.publishedAddress(name)
		} else if known {
			process.State = "ended"
		}
		processes = append(processes, process)
	}
	return processes, nil
}

// publishedAddress returns the address that a process has published; empty if it has none.
func (l Layout) publishedAddress(name string) string {
	if name == "bus" {
		at, err := l.Addresses()
		if err != nil {
			return ""
		}
		return strings.Join(at.Hub, ",")
	}
	path := l.gatewayAddress()
	if node, ok := strings.CutPrefix(name, "runtime/"); ok {
		path = l.runtimeAddress(node)
	} else if name != "gateway" {
		return ""
	}
	url, err := readURL(path)
	if err != nil {
		return "" // the address is not published yet
	}
	return url
}
