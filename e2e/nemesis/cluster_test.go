package nemesis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// cluster is a cluster of processes that the test starts and stops.
type cluster struct {
	t    *testing.T
	data string
}

// up starts a cluster. The end of the test stops it and checks that nothing is left.
func up(t *testing.T, arguments ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	t.Cleanup(c.down)
	if out, err := c.run(t.Context(), append([]string{"up", "--detach"}, arguments...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c
}

// down stops the cluster and checks that no process is left.
func (c *cluster) down() {
	if out, err := c.run(context.Background(), "down"); err != nil {
		c.t.Errorf("%v\n%s", err, out)
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(c.data)) {
			c.t.Errorf("left behind: %s", bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
}

// run runs a podfall command; its error includes standard error.
func (c *cluster) run(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, podfall, append([]string{"--data", c.data}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("podfall %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// processes returns the state of each process: running, paused or ended.
func (c *cluster) processes(ctx context.Context) (map[string]string, error) {
	status, err := c.status(ctx)
	states := map[string]string{}
	for _, p := range status {
		states[p.Name] = p.State
	}
	return states, err
}

func (c *cluster) status(ctx context.Context) ([]layouts.Process, error) {
	out, err := c.run(ctx, "status", "-o", "json")
	if err != nil {
		return nil, err
	}
	var status struct{ Processes []layouts.Process }
	err = json.Unmarshal([]byte(out), &status)
	return status.Processes, err
}

// terminate is the pseudo-command of a step that sends SIGTERM to a process.
const terminate = "terminate"

// terminate sends SIGTERM to a process and waits for its exit. A paused process would not react,
// and is left alone.
func (c *cluster) terminate(ctx context.Context, name string) error {
	pid := 0
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		status, err := c.status(ctx)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(status, func(p layouts.Process) bool { return p.Name == name && p.State == "running" })
		switch {
		case at < 0 && pid == 0:
			return fmt.Errorf("%s does not run", name)
		case at < 0 || pid != 0 && status[at].PID != pid:
			return nil
		case pid == 0:
			pid = status[at].PID
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s, which was asked to end, has not: %w", name, err)
		}
	}
}

// startEnded starts those of the processes that have ended.
func (c *cluster) startEnded(ctx context.Context, names ...string) error {
	states, err := c.processes(ctx)
	if err != nil {
		return err
	}
	ended := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return states[name] == "running" || states[name] == "paused" })
	if len(ended) == 0 {
		return nil
	}
	_, err = c.run(ctx, append([]string{"start"}, ended...)...)
	return err
}

// now returns the cluster's time.
func (c *cluster) now(ctx context.Context) (time.Time, error) {
	out, err := c.run(ctx, "clock", "-o", "json")
	if err != nil {
		return time.Time{}, err
	}
	var shown struct{ Time time.Time }
	return shown.Time, json.Unmarshal([]byte(out), &shown)
}

// dial returns a client that outlives the cluster's processes.
func (c *cluster) dial() *podapi.Client {
	c.t.Helper()
	layout := layouts.Layout{Root: c.data}
	addresses, err := layout.Addresses()
	if err != nil {
		c.t.Fatal(err)
	}
	config := bus.Config{URLs: addresses.Hub, Identity: proto.Client("admin")}
	if config.Seed, err = bus.LoadSeed(layout.Keys(), config.Identity); err != nil {
		c.t.Fatal(err)
	}
	conn, err := bus.Dial(c.t.Context(), config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	return podapi.New(conn, podapi.Config{})
}

// eventually waits for a condition, and fails with its last error.
func eventually(t *testing.T, what string, limit time.Duration, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			t.Fatalf("after %v it is still not so that %s: %v", limit, what, err)
		}
	}
}

// sleep separates requests or faults; no condition depends on it.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

var errStill = errors.New("still")

func stillError(format string, arguments ...any) error {
	return fmt.Errorf("%w %s", errStill, fmt.Sprintf(format, arguments...))
}
