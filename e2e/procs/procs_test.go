// Package procs tests the podfall binary as users run it, with its processes, real sockets, real
// signals and kill -9. Each test has its own cluster in its own directory, and removes it even if
// it fails.
package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
)

var (
	rounds = flag.Int("rounds", 20, "how many rounds of kill -9, and how many random pods")
	seed   = flag.Uint64("seed", 0, "what they are drawn from; 0 draws one")
)

// testSeed returns the -seed, or draws one, and logs how to repeat the test.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := *seed
	if seed == 0 { // drawn anew in each run of -count
		seed = rand.Uint64()
	}
	t.Logf("go test ./procs -run '%s' -seed %d -rounds %d", t.Name(), seed, *rounds)
	return seed
}

// Timeouts only bound how long a failure takes; a busy machine may be slow.
const (
	conditionTimeout = 3 * time.Minute
	commandLimit     = 5 * time.Minute
	// waitFlag is conditionTimeout as a flag of podfall wait, for a cluster at wall speed.
	waitFlag = "--timeout=3m"
)

// podfall is the tested binary, built from this tree. program is this test's own binary, at a path
// that every user can execute.
var podfall, program string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serverArgument {
		os.Exit(runServer(os.Args[2]))
	}
	if len(os.Args) == 4 && os.Args[1] == recorderArgument {
		code, _ := strconv.Atoi(os.Args[3])
		os.Exit(runRecorder(os.Args[2], code))
	}
	if len(os.Args) == 4 && os.Args[1] == hookArgument {
		took, _ := time.ParseDuration(os.Args[3])
		os.Exit(runHook(os.Args[2], took))
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
	podfall, program = filepath.Join(dir, "podfall"), filepath.Join(dir, "program")
	if err := copyExecutable(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-o", podfall, "github.com/podfall/podfall/cmd/podfall")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := setParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// setParallel lets more tests run at once than there are cores, unless -parallel is set, because
// they mostly wait.
func setParallel() error {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if set {
		return nil
	}
	return flag.Set("test.parallel", "5")
}

// cluster is a cluster started by `podfall up`.
type cluster struct {
	t    testing.TB
	data string
}

// up starts a cluster, detached.
func up(t testing.TB, arguments ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	t.Cleanup(c.down)
	c.must(append([]string{"up", "--detach"}, arguments...)...)
	return c
}

// down stops the cluster and checks that no process is left.
func (c *cluster) down() {
	if c.t.Failed() {
		c.printLogs()
	}
	if out := c.run("down"); out.code != 0 {
		c.t.Errorf("down: %s", out.stderr)
	}
	if left := c.processes(); len(left) > 0 {
		c.t.Errorf("left behind: %v", left)
	}
}

// printLogs prints the end of each process's log.
func (c *cluster) printLogs() {
	paths, _ := filepath.Glob(filepath.Join(c.data, "log", "*.log"))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil && len(data) > 0 {
			c.t.Logf("%s:\n%s", filepath.Base(path), data[max(0, len(data)-2000):])
		}
	}
}

// processes returns the command lines that name the cluster's directory.
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

// result is the output and exit code of a command.
type result struct {
	stdout, stderr string
	code           int
}

// run runs a podfall command for the cluster.
func (c *cluster) run(arguments ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	return c.runExec(ctx, exec.CommandContext(ctx, podfall, append([]string{"--data", c.data}, arguments...)...))
}

// runRemote is run with only the cluster's kubeconfig, without its directory.
func (c *cluster) runRemote(arguments ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	command := exec.CommandContext(ctx, podfall, arguments...)
	command.Dir = c.t.TempDir()
	command.Env = []string{"KUBECONFIG=" + filepath.Join(c.data, "kubeconfig")}
	return c.runExec(ctx, command)
}

// runExec runs a command and returns its result.
func (c *cluster) runExec(ctx context.Context, command *exec.Cmd) result {
	c.t.Helper()
	arguments := command.Args[1:]
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if ctx.Err() != nil {
		c.t.Fatalf("podfall %s did not end in %v; it printed\n%s%s", strings.Join(arguments, " "), commandLimit, &stdout, &stderr)
	}
	if err != nil && command.ProcessState == nil {
		c.t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// must is run for a command that must succeed; it returns standard output.
func (c *cluster) must(arguments ...string) string {
	c.t.Helper()
	out := c.run(arguments...)
	if out.code != 0 {
		c.t.Fatalf("podfall %s: exit %d\n%s%s", strings.Join(arguments, " "), out.code, out.stdout, out.stderr)
	}
	return out.stdout
}

// pid returns the PID of a running process of the cluster; 0 if it does not run.
func (c *cluster) pid(name string) int {
	c.t.Helper()
	for _, process := range c.status() {
		if process.Name == name && process.State == "running" {
			return process.PID
		}
	}
	return 0
}

// status returns the status of the cluster's processes.
func (c *cluster) status() []layouts.Process {
	c.t.Helper()
	var status struct{ Processes []layouts.Process }
	if err := json.Unmarshal([]byte(c.must("status", "-o", "json")), &status); err != nil {
		c.t.Fatal(err)
	}
	return status.Processes
}

// kill kills processes of the cluster with SIGKILL. It returns when they are gone and the cluster
// reports it.
func (c *cluster) kill(names ...string) {
	c.t.Helper()
	running := map[string]int{}
	for _, process := range c.status() {
		if process.State == "running" {
			running[process.Name] = process.PID
		}
	}
	for _, name := range names {
		if running[name] == 0 {
			c.t.Fatalf("%s does not run", name)
		}
		if err := syscall.Kill(running[name], syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, name := range names {
		eventually(c.t, name+" is dead", func() bool { return hasExited(running[name]) })
	}
	eventually(c.t, fmt.Sprint(names, " are gone"), func() bool {
		return !slices.ContainsFunc(c.status(), func(p layouts.Process) bool {
			return p.State == "running" && p.PID == running[p.Name] && slices.Contains(names, p.Name)
		})
	})
}

// hasExited reports whether a process has exited, even if it was not reaped yet.
func hasExited(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(conditionTimeout)
	defer limit.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("%v later it is still not so that %s", conditionTimeout, what)
		}
	}
}

// runPod applies a pod with one container that follows the script, and waits until it runs.
func (c *cluster) runPod(name, script string, grace int) {
	c.t.Helper()
	c.apply(manifest(name, script, grace))
	c.must("wait", "--for=condition=Ready", "pod/"+name, waitFlag)
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

// watchPod starts `get pods -w` for the pod web; stop ends it and returns its output.
func (c *cluster) watchPod() (stop func() []string) {
	const name = "web"
	c.t.Helper()
	command := exec.Command(podfall, "--data", c.data, "get", "pods", "--watch", "--output-watch-events", "--no-headers",
		"--field-selector", "metadata.name="+name)
	output := &lines{}
	command.Stdout = output
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() }) // fails if it was stopped
	eventually(c.t, "the watch shows the pod", func() bool { return output.contains(name) })
	return func() []string {
		eventually(c.t, "the watch shows DELETED", func() bool { return output.contains("DELETED") })
		if err := command.Process.Signal(os.Interrupt); err != nil {
			c.t.Fatal(err)
		}
		_ = command.Wait() // an interrupted watch exits with 1 (CLI-29)
		return output.rows()
	}
}

// readLog returns the log of a process.
func (c *cluster) readLog(name string) string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.data, "log", name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}
