// Package podfalltest gives a test a Kubernetes cluster in which pods run and terminate: an
// apiserver, controllers, and kubelets with simulated runtimes, in the test's own process, behind
// an HTTPS endpoint for any client. It covers what envtest leaves out: a deleted pod is stopped by
// its kubelet and then removed; a node that is cut off becomes NotReady and its pods hang in
// Terminating; a deleted namespace is emptied.
//
//	func TestReconcile(t *testing.T) {
//	c := podfalltest.Start(t, podfalltest.Nodes(3))
//	client := c.Client()           // or any client made of c.Config() or c.Kubeconfig()
//	…
//	c.Cut("node-1")                // no error on either side; AddCut has one-way, slow and lossy cuts
//	c.Heal("node-1")
//	c.Crash("apiserver")           // kill -9
//	c.Restart("apiserver")
//	c.Break("node-2", podfalltest.Unmount)
//	c.AddFault("slow", podfalltest.FaultSpec{…}) // any of docs/faults.md, until ClearFault
//	c.Step(5 * time.Minute)        // the clock; also SetSpeed, Pause and Resume
//	}
//
// A cluster starts in some tens of milliseconds. It needs no download, no root and no port but a
// free one of loopback, and stops with its test. Any number can run at the same time.
//
// Containers follow a script, which is an annotation of their pod. Without a script they run until
// they are stopped, and then exit with 0 after a second. Images are never executed.
//
//	metadata:
//	  annotations:
//	    script.podfall.io/main: ignores TERM     # main is the container's name
//
// # Time
//
// Cluster time is wall time multiplied by [Speed]. [Cluster.SetSpeed], [Cluster.Pause],
// [Cluster.Resume] and [Cluster.Step] change the clock of all parts at once while the cluster runs.
// Inside a testing/synctest bubble, with the option [InBubble], it is the bubble's time: an
// eviction after five minutes takes no time at all, and every duration is exact.
//
// # Goroutines
//
// Call the methods that inject and end faults from the test's goroutine: they fail the test on
// errors.
package podfalltest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/kubeconfig"
	"github.com/podfall/podfall/internal/pki"
	"github.com/podfall/podfall/podfalltest/inprocess"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway"
	"github.com/podfall/podfall/services/kubelet"
)

// partTimeout bounds in wall time how long a part may take to become ready, on a machine that may
// be busy.
const partTimeout = 2 * time.Minute

// Cluster is a running cluster.
type Cluster struct {
	t   testing.TB
	cfg settings
	// driver drives clock.
	driver   *clock.Driver
	clock    clock.Clock
	listener *stableListener
	access   kubeconfig.Access
	parts    *inprocess.Cluster
	file     string
}

// Start starts a cluster and waits until all its nodes are Ready. The cluster stops at the end of
// the test, after the functions passed to t.Cleanup later than this call.
func Start(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	c, err := start(t, options)
	if err != nil {
		t.Fatalf("podfalltest: %v", err)
	}
	return c
}

func start(t testing.TB, options []Option) (*Cluster, error) {
	c := &Cluster{t: t, cfg: defaults()}
	for _, option := range options {
		option(&c.cfg)
	}
	config, err := c.cfg.clusterConfig(t)
	if err != nil {
		return nil, err
	}
	schedule, err := clock.NewSchedule(clock.Clock{}.Now(), c.cfg.speed)
	if err != nil {
		return nil, fmt.Errorf("Speed: %w", err)
	}
	c.driver = clock.NewDriver(schedule)
	c.clock, config.Clock = c.driver.Clock(), c.driver.Clock()
	config.Kubelet = func(string) kubelet.Config {
		return kubelet.Config{Timing: c.cfg.timing, Machine: kubelet.Machine{Seed: randomSeed()}}
	}
	config.Ended = func(name string, err error) { t.Errorf("podfalltest: %s has ended by itself: %v", name, err) }
	if err := c.setUpGateway(&config); err != nil {
		return nil, err
	}
	t.Cleanup(c.listener.close)
	if c.parts, err = inprocess.New(t.Context(), config); err != nil {
		return nil, err
	}
	c.parts.RecordClock(schedule)
	t.Cleanup(c.stop)
	if err := errors.Join(c.startAll(), c.writeKubeconfig()); err != nil {
		return nil, err
	}
	return c, c.awaitNodes()
}

// setUpGateway creates the gateway's secrets and its listener.
func (c *Cluster) setUpGateway(config *inprocess.Config) error {
	now := clock.Clock{}.Now()
	authority, err := pki.NewAuthority("podfalltest", now)
	if err != nil {
		return err
	}
	server, err := authority.IssueServer("podfalltest", pki.Loopback(), now)
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(server.Certificate, server.Key)
	if err != nil {
		return err
	}
	if c.listener, err = c.cfg.listen(c.t.Context()); err != nil {
		return err
	}
	c.access = kubeconfig.Access{
		Cluster: "test", URL: "https://" + c.listener.Addr().String(), Authority: authority.Certificate, Token: rand.Text(),
	}
	config.Controllers.RootCA = authority.Certificate
	config.Gateway = &inprocess.Gateway{Listen: c.listener.newListener, Config: gateway.Config{
		TLS:   &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Token: c.access.Token,
	}}
	return nil
}

// startAll starts the parts in order of their dependencies.
func (c *Cluster) startAll() error {
	first, second := []string{"apiserver"}, []string{"gateway", "controllers"}
	for _, node := range c.cfg.nodeNames() {
		first = append(first, "runtime/"+node)
		second = append(second, "kubelet/"+node)
	}
	for _, stage := range [][]string{first, second} {
		if err := c.startEach(stage); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) startEach(names []string) error {
	failures := make([]error, len(names))
	var starting sync.WaitGroup
	for i, name := range names {
		starting.Go(func() { failures[i] = c.startOne(name) })
	}
	starting.Wait()
	return errors.Join(failures...)
}

func (c *Cluster) startOne(name string) error {
	ctx, cancel := c.bounded()
	defer cancel()
	return c.parts.Start(ctx, name)
}

// bounded returns a context with a timeout of partTimeout. It outlives the test's own context, so
// that the cluster still serves clean-up functions.
func (c *Cluster) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(c.t.Context()), partTimeout, fmt.Errorf("%v have passed", partTimeout))
}

// writeKubeconfig writes a kubeconfig. A cluster in a bubble has no address for one.
func (c *Cluster) writeKubeconfig() error {
	if c.listener.port == nil {
		return nil
	}
	data, err := c.access.File()
	if err != nil {
		return err
	}
	c.file = filepath.Join(c.t.TempDir(), "kubeconfig")
	return os.WriteFile(c.file, data, 0o600)
}

// stop stops everything.
func (c *Cluster) stop() {
	c.listener.disconnect() // do not wait for clients that still read watches
	c.parts.Close()
}

// Config returns a client-go configuration with administrator access and without rate limit. The
// caller may change it.
func (c *Cluster) Config() *rest.Config {
	config := &rest.Config{
		Host: c.access.URL, BearerToken: c.access.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(c.access.Authority)},
	}
	if c.listener.port == nil {
		config.Dial = c.listener.dial
	}
	return config
}

// Client returns a new client with [Cluster.Config].
func (c *Cluster) Client() kubernetes.Interface {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		c.t.Fatalf("podfalltest: %v", err)
	}
	return client
}

// Kubeconfig returns the path of a kubeconfig for other programs, for example kubectl. A cluster in
// a bubble has none, because no other process can connect to it.
func (c *Cluster) Kubeconfig() string {
	c.t.Helper()
	if c.file == "" {
		c.t.Fatal("podfalltest: a cluster in a bubble has no kubeconfig; use Config")
	}
	return c.file
}

// Nodes returns the names of the nodes: node-1 and so on.
func (c *Cluster) Nodes() []string { return c.cfg.nodeNames() }

// Parts returns the parts that can be crashed: apiserver, controllers, gateway, and kubelet/<node>
// and runtime/<node> for each node.
func (c *Cluster) Parts() []string {
	parts := []string{"apiserver", "controllers", "gateway"}
	for _, node := range c.Nodes() {
		parts = append(parts, "kubelet/"+node, "runtime/"+node)
	}
	return parts
}

// Crash stops a part like kill -9, and returns when it is gone. Its disk remains.
func (c *Cluster) Crash(part string) {
	c.t.Helper()
	if part == "gateway" {
		c.listener.disconnect()
	}
	if err := c.parts.Stop(part); err != nil {
		c.t.Fatalf("podfalltest: crash: %v; want one of %v", err, c.Parts())
	}
}

// Restart starts a crashed part, and returns when it is ready.
func (c *Cluster) Restart(part string) {
	c.t.Helper()
	if err := c.startOne(part); err != nil {
		c.t.Fatalf("podfalltest: restart: %v; want one of %v", err, c.Parts())
	}
}

func boot(string) proto.Boot {
	var entropy [4]byte
	_, _ = rand.Read(entropy[:]) // crypto/rand never fails
	return proto.NewBoot(clock.Clock{}.Now(), entropy)
}

// randomSeed returns a seed that differs between kubelets, so that they spread their retries.
func randomSeed() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // crypto/rand never fails
	return binary.LittleEndian.Uint64(bytes[:])
}

// testLogger writes to the test's output, which go test shows if the test fails.
func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
