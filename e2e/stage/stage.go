// Package stage is a whole cluster in one process, for tests: every service, core NATS
// in process, bbolt, and a testing/synctest bubble around it, so that hours take
// milliseconds and every duration is exact.
//
// A test makes a cluster with New inside synctest.Test, uses its API, breaks it, and
// reads its Trace: what crossed the buses, with the virtual time.
package stage

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/controllers"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/runtime"
)

// Config is what a cluster is made with; its zero value is three nodes of today's
// release with upstream's ticks.
type Config struct {
	// Nodes is how many; 3 when zero.
	Nodes int
	// Compat is the release to imitate.
	Compat string
	// Timing of the kubelets; upstream's when nil.
	Timing *kubelet.Timing
	// History is how many changes the apiserver remembers; its default when zero.
	History int
	// APIOnly leaves nodes and controllers out.
	APIOnly bool
	// Controllers are those to run, as controllers.Select reads them; the scheduler alone
	// when nil.
	Controllers []string
	// Valve holds up what the controllers see.
	Valve *view.Valve
	// Plugins are the apiserver's admission plugins that are on; when nil, those that complete
	// pods.
	Plugins []string
}

// Cluster is a running cluster. Its methods are for one goroutine, the test's.
type Cluster struct {
	t         testing.TB
	cfg       Config
	compat    proto.Compat
	dir       string
	hub       *bus.Server
	client    *bus.Conn
	api       *podapi.Client
	parts     map[string]*part
	links     map[string]*link
	nodeBuses map[string]*bus.Server
	trace     *Trace
	boots     byte
}

// part is one process of the cluster.
type part struct {
	name string
	run  func(ctx context.Context, ready func()) error
	stop context.CancelFunc
	done sync.WaitGroup
	err  error
}

// New starts a cluster and waits until every node is Ready. It ends with the test, and
// must be made inside a bubble.
func New(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	compat, err := proto.CompatFor(cfg.Compat)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Nodes == 0 {
		cfg.Nodes = 3
	}
	c := &Cluster{
		t: t, cfg: cfg, compat: compat, dir: t.TempDir(), parts: map[string]*part{}, links: map[string]*link{},
		nodeBuses: map[string]*bus.Server{},
	}
	if c.hub, err = bus.StartServer(t.Context(), bus.ServerConfig{Port: -1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	c.trace = newTrace(t, c.hub.InProcessConn)
	c.client = c.dial(proto.Client("admin"), c.hub.InProcessConn)
	c.api = podapi.New(c.client, podapi.Config{Boot: c.boot(), Operation: c.operation()})

	c.add("apiserver", c.apiserver)
	if cfg.APIOnly {
		return c
	}
	c.add("controllers", c.controllers)
	for i := range cfg.Nodes {
		c.addNode(fmt.Sprintf("node-%d", i+1))
	}
	c.Settle()
	return c
}

// API is a client of the cluster, as a person has it.
func (c *Cluster) API() *podapi.Client { return c.api }

// Trace is what has happened; see Trace.
func (c *Cluster) Trace() *Trace { return c.trace }

// Start starts a part that has been stopped, and waits until it is ready. Parts are
// called apiserver, controllers, kubelet/<node> and runtime/<node>.
func (c *Cluster) Start(name string) {
	c.t.Helper()
	p := c.part(name)
	if p.stop != nil {
		c.t.Fatalf("%s runs already", name)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	ready := make(chan struct{})
	p.done.Go(func() {
		p.err = p.run(ctx, sync.OnceFunc(func() { close(ready) }))
		if ctx.Err() == nil {
			c.t.Errorf("%s ended by itself: %v", name, p.err)
			stop()
		}
	})
	select {
	case <-ready:
	case <-ctx.Done():
		c.t.Fatalf("%s did not become ready: %v", name, p.err)
	case <-time.After(time.Minute):
		c.t.Fatalf("%s is not ready after a minute", name)
	}
}

// Stop ends a part as kill -9 would: nothing of it goes on, its disk stays.
func (c *Cluster) Stop(name string) {
	c.t.Helper()
	p := c.part(name)
	if p.stop == nil {
		c.t.Fatalf("%s does not run", name)
	}
	p.stop()
	p.done.Wait()
	p.stop = nil
}

// Cut holds the node's link to the cluster bus; Heal gives it back.
func (c *Cluster) Cut(node string) { c.links[node].cut() }

// Heal ends a cut.
func (c *Cluster) Heal(node string) { c.links[node].heal() }

// Align waits for the next instant that lies offset after a whole second. Kubelets
// begin on whole seconds, so that their ticks fall on them whatever it took to connect.
func Align(offset time.Duration) {
	now := time.Now().Add(-offset)
	time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
}

// Settle waits until nothing moves any more without time passing.
func (c *Cluster) Settle() { synctest.Wait() }

func (c *Cluster) part(name string) *part {
	c.t.Helper()
	p := c.parts[name]
	if p == nil {
		c.t.Fatalf("no part %q", name)
	}
	return p
}

func (c *Cluster) add(name string, run func(context.Context, func()) error) {
	c.parts[name] = &part{name: name, run: run}
	c.Start(name)
}

// addNode starts a node: its private bus, its runtime, and its kubelet behind a link.
func (c *Cluster) addNode(node string) {
	nodeBus, err := bus.StartServer(c.t.Context(), bus.ServerConfig{Port: -1})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nodeBus.Close)
	c.nodeBuses[node] = nodeBus
	c.trace.observe(node, nodeBus.InProcessConn)
	c.links[node] = &link{open: c.hub.InProcessConn, delay: hubDelay}
	cri := &link{open: nodeBus.InProcessConn, delay: nodeDelay}
	c.t.Cleanup(cri.end)
	c.add("runtime/"+node, func(ctx context.Context, ready func()) error {
		return c.runtime(ctx, node, nodeBus, ready)
	})
	c.add("kubelet/"+node, func(ctx context.Context, ready func()) error {
		return c.kubelet(ctx, node, cri, ready)
	})
}

func (c *Cluster) apiserver(ctx context.Context, ready func()) error {
	conn := c.dial(proto.APIServer, c.hub.InProcessConn)
	defer conn.Close()
	return apiserver.Run(ctx, apiserver.Config{
		Bus: conn, DataDir: filepath.Join(c.dir, "apiserver"), Compat: c.compat, Boot: c.boot(),
		History: c.cfg.History, Log: c.log(), NoSync: true, Ready: ready, DisablePlugins: c.pluginsOff(),
	})
}

// pluginsOff are the admission plugins that were not asked for.
func (c *Cluster) pluginsOff() []string {
	on := c.cfg.Plugins
	if on == nil {
		on = []string{admission.Priority, admission.DefaultTolerationSeconds}
	}
	return slices.DeleteFunc(admission.Plugins(), func(name string) bool { return slices.Contains(on, name) })
}

func (c *Cluster) controllers(ctx context.Context, ready func()) error {
	conn := c.dial(proto.Controllers, c.hub.InProcessConn)
	defer conn.Close()
	selected := c.cfg.Controllers
	if selected == nil {
		selected = []string{"scheduler"}
	}
	return controllers.Run(ctx, controllers.Config{
		Bus: conn, Compat: c.compat, Boot: c.boot(), Log: c.log(), Select: selected, Valve: c.cfg.Valve, Ready: ready,
	})
}

func (c *Cluster) runtime(ctx context.Context, node string, nodeBus *bus.Server, ready func()) error {
	conn := c.dial(proto.Runtime, nodeBus.InProcessConn)
	defer conn.Close()
	return runtime.Run(ctx, runtime.Config{
		Bus: conn, DataDir: filepath.Join(c.dir, node, "runtime"), Boot: c.boot(), Log: c.log(), NoSync: true, Ready: ready,
		PodCIDR: fmt.Sprintf("10.244.%s.0/24", strings.TrimPrefix(node, "node-")),
	})
}

func (c *Cluster) kubelet(ctx context.Context, node string, nodeBus *link, ready func()) error {
	conn := c.dial(proto.Node(node), c.links[node].dial)
	defer conn.Close()
	cri := c.dial(proto.Kubelet, nodeBus.dial)
	defer cri.Close()
	Align(0)
	timing := kubelet.Default()
	if c.cfg.Timing != nil {
		timing = *c.cfg.Timing
	}
	return kubelet.Run(ctx, kubelet.Config{
		Node: node, Bus: conn, Runtime: cri, DataDir: filepath.Join(c.dir, node, "kubelet"), Compat: c.compat,
		Boot: c.boot(), Log: c.log(), Timing: timing, Ready: ready,
	})
}

func (c *Cluster) dial(id proto.Identity, open func() (net.Conn, error)) *bus.Conn {
	conn, err := bus.Dial(context.Background(), bus.Config{Identity: id, InProcess: open})
	if err != nil {
		c.t.Error(err)
	}
	return conn
}

// boot is a new incarnation's; operation names calls in order. Neither is random, so
// that a trace repeats.
func (c *Cluster) boot() proto.Boot {
	c.boots++
	return proto.NewBoot(clock.Clock{}.Now(), [4]byte{c.boots})
}

func (c *Cluster) operation() func() string {
	var mu sync.Mutex
	number := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		number++
		return fmt.Sprintf("test-%d", number)
	}
}

func (c *Cluster) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// end stops everything that runs, the kubelets first.
func (c *Cluster) end() {
	for _, prefix := range []string{"kubelet/", "runtime/", "controllers", "apiserver"} {
		for name, p := range c.parts {
			if p.stop != nil && len(name) >= len(prefix) && name[:len(prefix)] == prefix {
				c.Stop(name)
			}
		}
	}
	for _, link := range c.links {
		link.end()
	}
	if c.client != nil {
		c.client.Close()
	}
	c.trace.end()
	c.hub.Close()
}

// Containers describes what the node's runtime holds, a line each.
func (c *Cluster) Containers(node string) string {
	c.t.Helper()
	// Not as a kubelet: a second one would fence the first.
	conn := c.dial(proto.Client("observer"), c.nodeBuses[node].InProcessConn)
	defer conn.Close()
	containers, err := runtimeapi.NewClient(conn, clock.Clock{}).ListContainers(c.t.Context(), "")
	if err != nil {
		c.t.Fatal(err)
	}
	var text strings.Builder
	for _, container := range containers {
		state := strings.TrimPrefix(container.GetState().String(), "CONTAINER_STATE_")
		fmt.Fprintf(&text, "%s %s", container.GetLabels()["io.kubernetes.pod.name"], state)
		if container.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED {
			fmt.Fprintf(&text, " %d %s", container.GetExitCode(), container.GetReason())
		}
		text.WriteString("\n")
	}
	return text.String()
}
