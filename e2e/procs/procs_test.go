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

// seeded is the seed that was asked for, or one that is drawn for this run, and says how the test
// is given it again.
func seeded(t *testing.T) uint64 {
	t.Helper()
	seed := *seed
	if seed == 0 { // anew in each run that -count asks for
		seed = rand.Uint64()
	}
	t.Logf("go test ./procs -run '%s' -seed %d -rounds %d", t.Name(), seed, *rounds)
	return seed
}

// How long things may take: that only bounds a failure, and a busy machine takes its time.
const (
	patience     = 3 * time.Minute
	commandLimit = 5 * time.Minute
	// waits is the flag of podfall wait for that, in a cluster at the wall's pace.
	waits = "--timeout=3m"
)

// podfall is the binary under test, built from this tree, and program this test's own where
// every user of the machine can run it.
var podfall, program string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == beAServer {
		os.Exit(serve(os.Args[2]))
	}
	if len(os.Args) == 4 && os.Args[1] == beAWitness {
		code, _ := strconv.Atoi(os.Args[3])
		os.Exit(witness(os.Args[2], code))
	}
	if len(os.Args) == 4 && os.Args[1] == beAHook {
		took, _ := time.ParseDuration(os.Args[3])
		os.Exit(hook(os.Args[2], took))
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
	if err := publish(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-o", podfall, "github.com/podfall/podfall/cmd/podfall")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := sideBySide(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// sideBySide lets more tests run at once than there are cores, unless -parallel says how
// many: most of their time is waiting.
func sideBySide() error {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if set {
		return nil
	}
	return flag.Set("test.parallel", "5")
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
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	return c.outcome(ctx, exec.CommandContext(ctx, podfall, append([]string{"--data", c.data}, arguments...)...))
}

// elsewhere is run for somebody who has the cluster's kubeconfig, and not its directory.
func (c *cluster) elsewhere(arguments ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	command := exec.CommandContext(ctx, podfall, arguments...)
	command.Dir = c.t.TempDir()
	command.Env = []string{"KUBECONFIG=" + filepath.Join(c.data, "kubeconfig")}
	return c.outcome(ctx, command)
}

// outcome runs a command and is what came of it.
func (c *cluster) outcome(ctx context.Context, command *exec.Cmd) result {
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

// kill is kill -9 of some processes of the cluster; it returns when they are gone, and the
// cluster says so.
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
		eventually(c.t, name+" is dead", func() bool { return dead(running[name]) })
	}
	eventually(c.t, fmt.Sprint(names, " are gone"), func() bool {
		return !slices.ContainsFunc(c.status(), func(p layouts.Process) bool {
			return p.State == "running" && p.PID == running[p.Name] && slices.Contains(names, p.Name)
		})
	})
}

// dead reports whether a process has ended; nobody may have asked for its exit code yet.
func dead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("%v later it is still not so that %s", patience, what)
		}
	}
}

// pod applies a pod with one container that follows the script, and waits until it runs.
func (c *cluster) pod(name, script string, grace int) {
	c.t.Helper()
	c.apply(manifest(name, script, grace))
	c.must("wait", "--for=condition=Ready", "pod/"+name, waits)
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
