// Package podfalltest gives a test a Kubernetes cluster in which pods really live and
// die: an apiserver, controllers, and kubelets with simulated runtimes, in the test's
// own process, behind an HTTPS endpoint that any client may use. What envtest leaves
// out happens here: a pod that is deleted is stopped by its kubelet and then removed, a
// node that is cut off becomes NotReady and its pods hang in Terminating, a namespace
// empties itself.
//
//	func TestReconcile(t *testing.T) {
//		c := podfalltest.Start(t, podfalltest.Nodes(3))
//		client := c.Client()           // or any client made of c.Config() or c.Kubeconfig()
//		…
//		c.Cut("node-1")                // nobody is told; AddCut has one-way, slow and lossy cuts
//		c.Heal("node-1")
//		c.Crash("apiserver")           // kill -9
//		c.Restart("apiserver")
//		c.Break("node-2", podfalltest.Unmount)
//		c.AddFault("slow", podfalltest.FaultSpec{…}) // any of docs/faults.md, until ClearFault
//		c.Step(5 * time.Minute)        // the clock; also SetSpeed, Pause and Resume
//	}
//
// A cluster takes some tens of milliseconds to start, needs no download, no root and no
// port but a free one of loopback, and ends with its test. Any number may run at the same
// time.
//
// Containers follow a script, an annotation of their pod; without one they run until they
// are told to end, and then exit with 0 after a second. Nothing of an image is executed.
//
//	metadata:
//	  annotations:
//	    script.podfall.io/main: ignores TERM     # main is the container's name
//
// # Time
//
// Time is the wall's, times [Speed]. [Cluster.SetSpeed], [Cluster.Pause], [Cluster.Resume]
// and [Cluster.Step] move it while the cluster runs, in all its parts at one instant.
// Inside a testing/synctest bubble it is the bubble's: with the option [InBubble] an
// eviction of five minutes takes no time at all, and every duration is exact.
//
// # Goroutines
//
// The methods that break and mend are for the test's goroutine: they fail the test
// with what did not work.
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

// patience is how long a part may take to be ready, on the wall of a machine that may be busy.
const patience = 2 * time.Minute

// Cluster is a running cluster.
type Cluster struct {
	t   testing.TB
	cfg settings
	// movement drives clock.
	movement *clock.Movement
	clock    clock.Clock
	door     *door
	access   kubeconfig.Access
	parts    *inprocess.Cluster
	file     string
}

// Start starts a cluster and waits until all its nodes are Ready. It ends with the test,
// after the functions that the test gives to t.Cleanup later than this call.
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
	composed, err := c.cfg.complete(t)
	if err != nil {
		return nil, err
	}
	face, err := clock.NewFace(clock.Clock{}.Now(), c.cfg.speed)
	if err != nil {
		return nil, fmt.Errorf("Speed: %w", err)
	}
	c.movement = clock.NewMovement(face)
	c.clock, composed.Clock = c.movement.Clock(), c.movement.Clock()
	composed.Kubelet = func(string) kubelet.Config {
		return kubelet.Config{Timing: c.cfg.timing, Machine: kubelet.Machine{Seed: seed()}}
	}
	composed.Ended = func(name string, err error) { t.Errorf("podfalltest: %s has ended by itself: %v", name, err) }
	if err := c.openDoor(&composed); err != nil {
		return nil, err
	}
	t.Cleanup(c.door.close)
	if c.parts, err = inprocess.New(t.Context(), composed); err != nil {
		return nil, err
	}
	c.parts.Moved(face)
	t.Cleanup(c.end)
	if err := errors.Join(c.startAll(), c.writeKubeconfig()); err != nil {
		return nil, err
	}
	return c, c.awaitNodes()
}

// openDoor makes the gateway's secrets and its listener.
func (c *Cluster) openDoor(composed *inprocess.Config) error {
	now := clock.Clock{}.Now()
	authority, err := pki.NewAuthority("podfalltest", now)
	if err != nil {
		return err
	}
	server, err := authority.Server("podfalltest", pki.Loopback(), now)
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(server.Certificate, server.Key)
	if err != nil {
		return err
	}
	if c.door, err = c.cfg.openDoor(c.t.Context()); err != nil {
		return err
	}
	c.access = kubeconfig.Access{
		Cluster: "test", URL: "https://" + c.door.Addr().String(), Authority: authority.Certificate, Token: rand.Text(),
	}
	composed.Controllers.RootCA = authority.Certificate
	composed.Gateway = &inprocess.Door{Listen: c.door.open, Config: gateway.Config{
		TLS:   &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Token: c.access.Token,
	}}
	return nil
}

// startAll starts the parts, those that need others after them.
func (c *Cluster) startAll() error {
	first, second := []string{"apiserver"}, []string{"gateway", "controllers"}
	for _, node := range c.cfg.names() {
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

// bounded is for as long as the test has patience. It does not end with the test's own
// context, so that a cluster serves what is left to clean up.
func (c *Cluster) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(c.t.Context()), patience, fmt.Errorf("%v have passed", patience))
}

// writeKubeconfig is for clients that read files; a bubble's cluster has no address that
// a file could name.
func (c *Cluster) writeKubeconfig() error {
	if c.door.port == nil {
		return nil
	}
	data, err := c.access.File()
	if err != nil {
		return err
	}
	c.file = filepath.Join(c.t.TempDir(), "kubeconfig")
	return os.WriteFile(c.file, data, 0o600)
}

// end stops everything.
func (c *Cluster) end() {
	c.door.shut() // who still reads a watch need not be waited for
	c.parts.Close()
}

// Config is how client-go reaches the cluster, as its administrator: without a limit on
// how much is asked. It is the caller's to change.
func (c *Cluster) Config() *rest.Config {
	config := &rest.Config{
		Host: c.access.URL, BearerToken: c.access.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(c.access.Authority)},
	}
	if c.door.port == nil {
		config.Dial = c.door.dial
	}
	return config
}

// Client is a new client with the [Cluster.Config].
func (c *Cluster) Client() kubernetes.Interface {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		c.t.Fatalf("podfalltest: %v", err)
	}
	return client
}

// Kubeconfig is the path of a kubeconfig for programs, such as kubectl. A cluster in a
// bubble has none, because no other process can reach it.
func (c *Cluster) Kubeconfig() string {
	c.t.Helper()
	if c.file == "" {
		c.t.Fatal("podfalltest: a cluster in a bubble has no kubeconfig; use Config")
	}
	return c.file
}

// Nodes are the names of the nodes, node-1 and so on.
func (c *Cluster) Nodes() []string { return c.cfg.names() }

// Parts are what can be crashed: apiserver, controllers, gateway, and kubelet/<node> and
// runtime/<node> for each node.
func (c *Cluster) Parts() []string {
	parts := []string{"apiserver", "controllers", "gateway"}
	for _, node := range c.Nodes() {
		parts = append(parts, "kubelet/"+node, "runtime/"+node)
	}
	return parts
}

// Crash ends a part as kill -9 would, and returns when it is gone. What it has on disk
// stays.
func (c *Cluster) Crash(part string) {
	c.t.Helper()
	if part == "gateway" {
		c.door.shut()
	}
	if err := c.parts.Stop(part); err != nil {
		c.t.Fatalf("podfalltest: crash: %v; want one of %v", err, c.Parts())
	}
}

// Restart starts a part that has crashed, and returns when it does its work again.
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

// seed draws what kubelets must not share: how they spread retries.
func seed() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // crypto/rand never fails
	return binary.LittleEndian.Uint64(bytes[:])
}

// logger writes to the test's own output, which go test shows when the test has failed.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}
