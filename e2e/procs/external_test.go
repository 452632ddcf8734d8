package procs

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/homeport"
	network "github.com/podfall/podfall/services/bus"
)

// natsServer builds the stock server once.
var natsServer = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(filepath.Dir(podfall), "nats-server")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w\n%s", err, out)
	}
	return binary, nil
})

// natsProcess is a separately started stock nats-server.
type natsProcess struct {
	t       *testing.T
	cfg     bus.ServerConfig
	address string
	command *exec.Cmd
	output  *lines
}

// startNATS runs a nats-server until the end of the test, on a port that can be reused after a
// restart.
func startNATS(t *testing.T, users []bus.User) *natsProcess {
	t.Helper()
	port, err := homeport.Free(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	n := &natsProcess{t: t, cfg: bus.ServerConfig{Users: users, Port: port}}
	n.start()
	t.Cleanup(n.kill)
	return n
}

func (n *natsProcess) start() {
	n.t.Helper()
	binary, err := natsServer()
	if err != nil {
		n.t.Fatal(err)
	}
	config := filepath.Join(n.t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, []byte(n.cfg.NATSConfig()), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.output = &lines{}
	n.command = exec.Command(binary, "-c", config)
	n.command.Stderr = n.output
	if err := n.command.Start(); err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, "nats-server is ready", func() bool { return n.output.contains("Server is ready") })
	for log := bufio.NewScanner(strings.NewReader(n.output.all())); log.Scan(); {
		if _, address, ok := strings.Cut(log.Text(), "Listening for client connections on "); ok {
			n.address = address
		}
	}
	if n.address == "" {
		n.t.Fatalf("nats-server does not say where it listens:\n%s", n.output.all())
	}
}

// kill kills the server with SIGKILL and waits for its exit. It is idempotent.
func (n *natsProcess) kill() {
	_ = n.command.Process.Kill() // fails if it has exited
	_ = n.command.Wait()
}

func (n *natsProcess) url() string { return "nats://" + n.address }

// makeKeys creates the keys of a cluster that is not up yet, because the server's administrator
// needs them first.
func makeKeys(t *testing.T, data string, nodes ...string) []bus.User {
	t.Helper()
	users, err := bus.WriteCredentials(layouts.Layout{Root: data}.Keys(), network.Identities(nodes)...)
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// networks returns the ways for a cluster of two nodes to get its bus.
func networks() map[string]func(t *testing.T) *cluster {
	return map[string]func(t *testing.T) *cluster{
		"own hub": func(t *testing.T) *cluster { return up(t, "--nodes", "2") },
		"nats-server with users": func(t *testing.T) *cluster {
			c, _ := upWithNATS(t)
			return c
		},
		"open nats-server": func(t *testing.T) *cluster {
			return up(t, "--nodes", "2", "--bus", startNATS(t, nil).url())
		},
	}
}

// upWithNATS starts a cluster of two nodes with a nats-server that knows its keys.
func upWithNATS(t *testing.T) (*cluster, *natsProcess) {
	t.Helper()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	n := startNATS(t, makeKeys(t, c.data, "node-1", "node-2"))
	t.Cleanup(c.down)
	c.must("up", "--detach", "--nodes", "2", "--bus", n.url())
	return c, n
}

// TestAnyBus runs TRC-01 and TRC-05 with every kind of bus.
func TestAnyBus(t *testing.T) {
	t.Parallel()
	for name, network := range networks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := network(t)
			gracefulDelete(t, c)
			forcedDelete(t, c)
		})
	}
}

// TestExternalBusRestarts kills the NATS server while a pod terminates. Processes and watches must
// reconnect.
func TestExternalBusRestarts(t *testing.T) {
	t.Parallel()
	c, n := upWithNATS(t)
	pids := c.pids()
	c.runPod("web", "ignores TERM", 5)
	stop := c.watchPod()
	c.must("delete", "pod", "web", "--wait=false")
	eventually(t, "TERM was sent", func() bool { return c.runtimesLogged("signal=SIGTERM") })
	n.kill()
	n.start()
	wantRows(t, stop(), "ADDED web 1/1 Running", "MODIFIED web 1/1 Terminating", "MODIFIED web 0/1 Error", "DELETED web 0/1 Error")
	c.samePIDs(pids)
	c.runPod("after", "on TERM exits 0 after 0s", 5)
	c.must("delete", "pod", "after")
}

// TestExternalBusRefuses starts clusters with unusable servers.
func TestExternalBusRefuses(t *testing.T) {
	t.Parallel()
	const gone = "nats://127.0.0.1:1" // nothing listens on port 1
	stranger := startNATS(t, makeKeys(t, filepath.Join(t.TempDir(), "other"), "node-1"))
	for name, row := range map[string]struct{ url, want string }{
		"nobody listens":         {gone, "no servers available"},
		"it knows other keys":    {stranger.url(), "forbidden to this identity"},
		"it is not an URL":       {"nats://", "bus"},
		"it is of another world": {"http://" + stranger.address, "bus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
			out := c.run("up", "--detach", "--nodes", "1", "--bus", row.url)
			if out.code != 1 || !strings.Contains(out.stderr, row.url) || !strings.Contains(out.stderr, row.want) {
				t.Errorf("up: %+v, want an error that names %s and says %q", out, row.url, row.want)
			}
			if left := c.processes(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// runtimesLogged reports whether the runtime of either node has logged the words.
func (c *cluster) runtimesLogged(words string) bool {
	c.t.Helper()
	for _, node := range []string{"node-1", "node-2"} {
		data, err := os.ReadFile(filepath.Join(c.data, "log", "runtime-"+node+".log"))
		if err == nil && strings.Contains(string(data), words) {
			return true
		}
	}
	return false
}
