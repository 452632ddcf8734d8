package podfalltest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/podfall/podfall/podfalltest/inprocess"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet"
)

// Option configures a cluster.
type Option func(*settings)

type settings struct {
	nodes       int
	speed       float64
	controllers []string
	release     string
	timing      kubelet.Timing
	history     int
	bubble      bool
	log         *slog.Logger
}

const (
	defaultNodes = 1
	maxNodes     = 200
)

func defaults() settings {
	return settings{nodes: defaultNodes, speed: 1, timing: kubelet.Fastest()}
}

// Nodes sets the number of nodes: 1 to 200; the default is 1. They are named node-1, node-2 and so
// on.
func Nodes(count int) Option { return func(s *settings) { s.nodes = count } }

// Speed sets how many cluster seconds pass per wall second: 0.001 to 10,000. Graces, back-offs,
// leases and time stamps are cluster time.
func Speed(rate float64) Option { return func(s *settings) { s.speed = rate } }

// Controllers selects the controllers to run, like kube-controller-manager's --controllers: "*" is
// all, a name is that one, "-name" is all but that one. By default all run, including the
// scheduler.
func Controllers(list ...string) Option { return func(s *settings) { s.controllers = list } }

// Compat sets the Kubernetes release to imitate, "v1.37" or "v1.22".
func Compat(release string) Option { return func(s *settings) { s.release = release } }

// UpstreamTiming gives the kubelets upstream's intervals, for example a relist per second. The
// default intervals are the shortest and delay nothing.
func UpstreamTiming() Option { return func(s *settings) { s.timing = kubelet.Default() } }

// Timing sets the kubelets' intervals.
func Timing(timing kubelet.Timing) Option { return func(s *settings) { s.timing = timing } }

// History sets how many changes the apiserver remembers; the default is 100,000. A watch from
// before them gets 410 Gone.
func History(changes int) Option { return func(s *settings) { s.history = changes } }

// Logger receives the parts' logs. By default their warnings go to the test's output.
func Logger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// InBubble is for tests inside a testing/synctest bubble. The cluster has no socket, and clients
// must use [Cluster.Config], which connects them by pipes. Do not combine it with Speed: the
// bubble's time needs no waiting anyway. The clock can still be changed.
func InBubble() Option { return func(s *settings) { s.bubble = true } }

func (s settings) nodeNames() []string {
	names := make([]string, s.nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	return names
}

// clusterConfig returns the cluster that the settings describe.
func (s settings) clusterConfig(t testing.TB) (inprocess.Config, error) {
	cfg := inprocess.Config{Boot: boot, Log: s.log}
	cfg.Controllers.Select, cfg.APIServer.Keep = s.controllers, s.history
	if s.nodes < 1 || s.nodes > maxNodes {
		return cfg, fmt.Errorf("Nodes(%d): want 1 to %d", s.nodes, maxNodes)
	}
	var err error
	if cfg.Compat, err = proto.CompatFor(s.release); err != nil {
		return cfg, fmt.Errorf("Compat: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = testLogger(t)
	}
	cfg.Nodes, cfg.Dir = s.nodeNames(), t.TempDir()
	return cfg, nil
}

// listen opens the listener for clients.
func (s settings) listen(ctx context.Context) (*stableListener, error) {
	if s.bubble {
		return listenPipes(), nil
	}
	return listenLoopback(ctx)
}
