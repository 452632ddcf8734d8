package procs

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUpIsRepeatableAndDownLeavesNothing(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "2")
	before := c.pid("apiserver")
	c.must("up", "--detach", "--nodes", "2")
	if after := c.pid("apiserver"); after != before {
		t.Errorf("up on a running cluster replaced the apiserver: pid %d, then %d", before, after)
	}
	if out := c.run("up", "--detach", "--nodes", "3"); out.code == 0 || !strings.Contains(out.stderr, "number of nodes (2, not 3)") {
		t.Errorf("up with other options: %+v", out)
	}
	c.must("down", "--purge")
	if _, err := os.Stat(c.data); !os.IsNotExist(err) {
		t.Errorf("down --purge left %s: %v", c.data, err)
	}
	c.must("up", "--detach", "--nodes", "1")
}

func TestInterruptedUpLeavesNothing(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	t.Cleanup(func() {
		if left := c.processes(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	command := exec.Command(podfall, "--data", c.data, "up", "--nodes", "1")
	output := &lines{}
	command.Stderr = output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster is ready", func() bool { return output.contains("the cluster is ready") })
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("up, interrupted when ready: %v", err)
	}
}

// TestUpThatFailsHalfWay starts a cluster with a database of another version: the bus and the
// runtimes have started by then, and must be stopped.
func TestUpThatFailsHalfWay(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.must("down")
	database := filepath.Join(c.data, "apiserver", "apiserver.db")
	if err := os.WriteFile(database, []byte(strings.Repeat("not a database\n", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	out := c.run("up", "--detach", "--nodes", "1")
	if out.code != 1 || !strings.Contains(out.stderr, "apiserver ended before it was ready") {
		t.Errorf("up: %+v", out)
	}
	if left := c.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKubeletArguments(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--kubelet-arg=--cpu=2", "--kubelet-arg=--relist-period=200ms")
	if cpu := c.must("get", "node", "node-1", "-o", "jsonpath={.status.capacity.cpu}"); cpu != "2" {
		t.Errorf("the node has %q processors, want 2", cpu)
	}
	bad := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	out := bad.run("up", "--detach", "--nodes", "1", "--kubelet-arg=--relist-period=-1s")
	if out.code != 1 || !strings.Contains(out.stderr, "--relist-period -1s: want more than 0") {
		t.Errorf("a negative period: %+v", out)
	}
	if left := bad.processes(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.runPod("web", "ignores TERM", 30)
	c.kill("supervisor")
	c.must("get", "pod", "web")
	c.must("up", "--detach", "--nodes", "1")
	if out := c.must("get", "pod", "web", "--no-headers"); !strings.Contains(out, "Running") {
		t.Errorf("after the supervisor was killed and the cluster brought up again: %s", out)
	}
}

func TestCommandsWithoutACluster(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "none")}
	for _, arguments := range [][]string{{"get", "pods"}, {"delete", "pod", "x"}, {"status"}, {"down"}} {
		if out := c.run(arguments...); out.code != 1 || !strings.Contains(out.stderr, "no cluster here") {
			t.Errorf("%v: %+v", arguments, out)
		}
	}
	for _, arguments := range [][]string{
		{"up", "--nodes", "0"}, {"up", "--speed", "-1"}, {"up", "--compat", "v0.1"}, {"up", "--timing", "slow"}, {"status", "-o", "xml"},
	} {
		out := c.run(arguments...)
		if want := strings.TrimPrefix(arguments[1], "-"); out.code == 0 || !strings.Contains(out.stderr, want) && arguments[0] == "up" {
			t.Errorf("%v: %+v, want an error that names %s", arguments, out, want)
		}
	}
	if out := c.run("delte", "pod", "x"); out.code != 2 || !strings.Contains(out.stderr, `unknown command "delte"; podfall --help lists them. Did you mean "delete"?`) {
		t.Errorf("a mistyped command: %+v", out)
	}
	if _, err := os.Stat(c.data); !os.IsNotExist(err) {
		t.Errorf("commands that failed have made %s", c.data)
	}
}

// TestClosedToOthers checks that files are readable by their owner only, and sockets are on
// loopback.
func TestClosedToOthers(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	err := filepath.Walk(c.data, func(path string, info os.FileInfo, err error) error {
		if os.IsNotExist(err) {
			return nil // the file was renamed meanwhile
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses(t, c) {
		host, _, err := net.SplitHostPort(address)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("listens on %s: %v", address, err)
		}
	}
}

// addresses returns the listen addresses that the cluster reports.
func addresses(t *testing.T, c *cluster) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"bus.json", "runtime-node-1.json"} {
		data, err := os.ReadFile(filepath.Join(c.data, "run", name))
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(data), `"`) {
			if address, ok := strings.CutPrefix(part, "nats://"); ok {
				found = append(found, address)
			}
		}
	}
	if len(found) < 3 {
		t.Fatalf("found addresses %v, want hub, link and node bus", found)
	}
	return found
}
