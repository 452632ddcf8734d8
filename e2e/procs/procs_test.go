// Package procs tests podfall as people run it: the binary, its processes, real sockets,
// real signals and kill -9. Each test has a cluster of its own in a directory of its
// own, and takes it away whatever happens.
package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
)

var rounds = flag.Int("rounds", 20, "how many rounds of kill -9")

// podfall is the binary under test, built from this tree.
var podfall string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == beAServer {
		os.Exit(serve(os.Args[2]))
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "podfall-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	podfall = filepath.Join(dir, "podfall")
	build := exec.Command("go", "build", "-o", podfall, "github.com/podfall/podfall/cmd/podfall")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// cluster is one that `podfall up` has made.
type cluster struct {
	t    testing.TB
	data string
}

// up starts a cluster, detached.
func up(t testing.TB, arguments ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	t.Cleanup(c.end)
	c.must(append([]string{"up", "--detach"}, arguments...)...)
	return c
}

// end takes the cluster away and checks that nothing of it is left.
func (c *cluster) end() {
	if c.t.Failed() {
		c.logs()
	}
	if out := c.run("down"); out.code != 0 {
		c.t.Errorf("down: %s", out.stderr)
	}
	if left := c.processes(); len(left) > 0 {
		c.t.Errorf("left behind: %v", left)
	}
}

// logs shows the end of what each process wrote.
func (c *cluster) logs() {
	paths, _ := filepath.Glob(filepath.Join(c.data, "log", "*.log"))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil && len(data) > 0 {
			c.t.Logf("%s:\n%s", filepath.Base(path), data[max(0, len(data)-2000):])
		}
	}
}

// processes lists the pids whose command line names the cluster's directory.
func (c *cluster) processes() []string {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && bytes.Contains(line, []byte(c.data)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// result is what a command has printed, and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

// run runs a podfall command about the cluster.
func (c *cluster) run(arguments ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, podfall, append([]string{"--data", c.data}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if ctx.Err() != nil {
		c.t.Fatalf("podfall %s did not end in two minutes; it printed\n%s%s", strings.Join(arguments, " "), &stdout, &stderr)
	}
	if err != nil && command.ProcessState == nil {
		c.t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// must is run for a command that has to succeed; it returns what was printed.
func (c *cluster) must(arguments ...string) string {
	c.t.Helper()
	out := c.run(arguments...)
	if out.code != 0 {
		c.t.Fatalf("podfall %s: exit %d\n%s%s", strings.Join(arguments, " "), out.code, out.stdout, out.stderr)
	}
	return out.stdout
}

// pid is that of a running process of the cluster; 0 when it does not run.
func (c *cluster) pid(name string) int {
	c.t.Helper()
	for _, process := range c.status() {
		if process.Name == name && process.State == "running" {
			return process.PID
		}
	}
	return 0
}

// status is what the cluster says of its processes.
func (c *cluster) status() []layouts.Process {
	c.t.Helper()
	var status struct{ Processes []layouts.Process }
	if err := json.Unmarshal([]byte(c.must("status", "-o", "json")), &status); err != nil {
		c.t.Fatal(err)
	}
	return status.Processes
}

// kill is kill -9 of one process of the cluster; it returns when the process is gone.
func (c *cluster) kill(names ...string) {
	c.t.Helper()
	for _, name := range names {
		pid := c.pid(name)
		if pid == 0 {
			c.t.Fatalf("%s does not run", name)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, name := range names {
		eventually(c.t, name+" is gone", func() bool { return c.pid(name) == 0 })
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("a minute later it is still not so that %s", what)
		}
	}
}

// pod applies a pod with one container that follows the script, and waits until it runs.
func (c *cluster) pod(name, script string, grace int) {
	c.t.Helper()
	c.apply(manifest(name, script, grace))
	c.must("wait", "--for=condition=Ready", "pod/"+name, "--timeout=60s")
}

func manifest(name, script string, grace int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    script.podfall.io/main: %q
spec:
  terminationGracePeriodSeconds: %d
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
`, name, script, grace)
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("apply", "-f", path)
}

// watching starts `get pods -w` for the pod called web and returns its output when stop is called.
func (c *cluster) watching() (stop func() []string) {
	const name = "web"
	c.t.Helper()
	command := exec.Command(podfall, "--data", c.data, "get", "pods", "--watch", "--output-watch-events", "--no-headers",
		"--field-selector", "metadata.name="+name)
	output := &lines{}
	command.Stdout = output
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() }) // in vain when it was stopped
	eventually(c.t, "the watch shows the pod", func() bool { return output.has(name) })
	return func() []string {
		eventually(c.t, "the watch shows DELETED", func() bool { return output.has("DELETED") })
		if err := command.Process.Signal(os.Interrupt); err != nil {
			c.t.Fatal(err)
		}
		_ = command.Wait() // an interrupted watch exits with 1 (CLI-29)
		return output.rows()
	}
}

// log is what a process has written.
func (c *cluster) log(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.data, "log", name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}
