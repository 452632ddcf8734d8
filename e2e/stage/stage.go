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
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/internal/trouble"
	"github.com/podfall/podfall/podfalltest/inprocess"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/kubelet"
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
	Valve *view.EventGate
	// Distance is how long a message to or from the controllers takes; none when zero.
	Distance time.Duration
	// Wrong are the clocks of parts that have another than the wall's.
	Wrong map[string]clock.Clock
	// Plugins are the apiserver's admission plugins that are on; when nil, those that complete
	// pods.
	Plugins []string
}

// Cluster is a running cluster. Its methods are for one goroutine, the test's.
type Cluster struct {
	t      testing.TB
	cfg    Config
	dir    string
	parts  *inprocess.Cluster
	client *bus.Conn
	api    *podapi.Client
	links  map[string]*link
	trace  *Trace
	boots  byte
}

// New starts a cluster and waits until every node is Ready. It ends with the test, and
// must be made inside a bubble.
func New(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	if cfg.Nodes == 0 && !cfg.APIOnly {
		cfg.Nodes = 3
	}
	c := &Cluster{t: t, cfg: cfg, dir: t.TempDir(), links: map[string]*link{}}
	var err error
	if c.parts, err = inprocess.New(t.Context(), c.compose()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	c.trace = newTrace(t, c.parts.Hub)
	c.client = c.dial(proto.Client("admin"), c.parts.Hub)
	c.api = podapi.New(c.client, podapi.Config{Boot: c.boot(""), Operation: c.operation()})
	c.Start("apiserver")
	if cfg.APIOnly {
		return c
	}
	c.Start("controllers")
	for _, node := range c.nodes() {
		c.trace.observe(node, func() (net.Conn, error) { return c.parts.NodeBus(node) })
		c.Start("runtime/" + node)
		c.Start("kubelet/" + node)
	}
	c.Settle()
	return c
}

// compose is the cluster that the Config describes.
func (c *Cluster) compose() inprocess.Config {
	compat, err := proto.CompatFor(c.cfg.Compat)
	if err != nil {
		c.t.Fatal(err)
	}
	composed := inprocess.Config{
		Clocks: inprocess.Clocks{Skewed: c.cfg.Wrong},
		Dir:    c.dir, Nodes: c.nodes(), Compat: compat, Boot: c.boot, Wire: c.wire,
		Log:   slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ended: func(name string, err error) { c.t.Errorf("%s ended by itself: %v", name, err) },
	}
	composed.APIServer.Keep, composed.APIServer.DisablePlugins = c.cfg.History, c.pluginsOff()
	composed.Controllers.Select, composed.Controllers.Valve = c.cfg.Controllers, c.cfg.Valve
	if slices.Contains(c.cfg.Controllers, rootCAPublisher) { // no other stage has its ConfigMaps
		composed.Controllers.RootCA = []byte("authority")
	}
	if c.cfg.Controllers == nil {
		composed.Controllers.Select = []string{"scheduler"}
	}
	if c.cfg.Timing != nil {
		composed.Kubelet = func(string) kubelet.Config { return kubelet.Config{Timing: *c.cfg.Timing} }
	}
	return composed
}

func (c *Cluster) nodes() []string {
	var names []string
	for i := range c.cfg.Nodes {
		names = append(names, fmt.Sprintf("node-%d", i+1))
	}
	return names
}

// wire delays what a kubelet says and hears, and the controllers when they are to be away.
func (c *Cluster) wire(name string, open inprocess.OpenFunc) inprocess.OpenFunc {
	delay := hubDelay
	switch kind, _, _ := strings.Cut(name, "/"); kind {
	case "kubelet":
	case "cri":
		delay = nodeDelay
	case "controllers":
		if delay = c.cfg.Distance; delay == 0 {
			return open
		}
	default:
		return open
	}
	if c.links[name] == nil {
		c.links[name] = &link{open: open, delay: delay}
	}
	return c.links[name].dial
}

// API is a client of the cluster, as a person has it.
func (c *Cluster) API() *podapi.Client { return c.api }

// Trace is what has happened; see Trace.
func (c *Cluster) Trace() *Trace { return c.trace }

// Start starts a part that has been stopped, and waits until it is ready. Parts are
// called apiserver, controllers, kubelet/<node> and runtime/<node>.
func (c *Cluster) Start(name string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.parts.Start(ctx, name); err != nil {
		c.t.Fatal(err)
	}
}

// Stop ends a part as kill -9 would: nothing of it goes on, its disk stays.
func (c *Cluster) Stop(name string) {
	c.t.Helper()
	if err := c.parts.Stop(name); err != nil {
		c.t.Fatal(err)
	}
}

// Cut holds the node's link to the cluster bus; Heal gives it back.
func (c *Cluster) Cut(node string) {
	began := c.parts.Troubles().Now()
	c.links["kubelet/"+node].cut()
	c.told(began, func(s *trouble.State) {
		s.Members = c.parts.Members()
		s.Cuts = append(without(s.Cuts, node), partition.Cut{Name: node, Spec: partition.Spec{Members: []string{node}}, Since: time.Now()})
	})
}

// Heal ends a cut.
func (c *Cluster) Heal(node string) {
	began := c.parts.Troubles().Now()
	c.links["kubelet/"+node].heal()
	c.told(began, func(s *trouble.State) { s.Cuts = without(s.Cuts, node) })
}

// told writes down what has been broken or mended since the moment.
func (c *Cluster) told(began history.MonoTime, change func(*trouble.State)) {
	c.parts.Troubles().Update(began, change)
}

// without leaves out the cut of a name.
func without(cuts []partition.Cut, name string) []partition.Cut {
	return slices.DeleteFunc(slices.Clone(cuts), func(c partition.Cut) bool { return c.Name == name })
}

// Align waits for the next instant that lies offset after a whole second. Kubelets
// begin on whole seconds, so that their ticks fall on them whatever it took to connect.
func Align(offset time.Duration) {
	now := time.Now().Add(-offset)
	time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
}

// Settle waits until nothing moves any more without time passing.
func (c *Cluster) Settle() { synctest.Wait() }

const rootCAPublisher = "root-ca-certificate-publisher-controller"

// pluginsOff are the admission plugins that were not asked for.
func (c *Cluster) pluginsOff() []string {
	on := c.cfg.Plugins
	if on == nil {
		on = []string{admission.Priority, admission.DefaultTolerationSeconds}
	}
	return slices.DeleteFunc(admission.Plugins(), func(name string) bool { return slices.Contains(on, name) })
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
func (c *Cluster) boot(part string) proto.Boot {
	if strings.HasPrefix(part, "kubelet/") {
		Align(0)
	}
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

// end stops everything.
func (c *Cluster) end() {
	c.client.Close()
	c.parts.Close()
	for _, link := range c.links {
		link.end()
	}
	c.trace.end()
}

// Containers describes what the node's runtime holds, a line each.
func (c *Cluster) Containers(node string) string {
	c.t.Helper()
	// Not as a kubelet: a second one would fence the first.
	conn := c.dial(proto.Client("observer"), func() (net.Conn, error) { return c.parts.NodeBus(node) })
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
