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

// Option changes how a cluster is made.
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
	mostNodes    = 200
)

func defaults() settings {
	return settings{nodes: defaultNodes, speed: 1, timing: kubelet.Fastest()}
}

// Nodes is how many nodes there are: 1 to 200, and 1 without this option. They are
// called node-1, node-2 and so on.
func Nodes(count int) Option { return func(s *settings) { s.nodes = count } }

// Speed is how many seconds of the cluster pass in one of the wall: 0.001 to 10,000.
// Graces, back-offs, leases and time stamps are in the cluster's time.
func Speed(rate float64) Option { return func(s *settings) { s.speed = rate } }

// Controllers says which controllers run, as kube-controller-manager's --controllers:
// "*" is all, a name is that one, "-name" is all but that one. Without this option all
// run, the scheduler among them.
func Controllers(list ...string) Option { return func(s *settings) { s.controllers = list } }

// Compat is the Kubernetes release to imitate, "v1.37" or "v1.22".
func Compat(release string) Option { return func(s *settings) { s.release = release } }

// UpstreamTiming gives the kubelets upstream's ticks, such as a relist a second, in place
// of the fastest ones, which delay nothing.
func UpstreamTiming() Option { return func(s *settings) { s.timing = kubelet.Default() } }

// Timing gives the kubelets these ticks.
func Timing(timing kubelet.Timing) Option { return func(s *settings) { s.timing = timing } }

// History is how many changes the apiserver remembers, 100,000 without this option. A
// watch that wants to begin before them is answered with 410 Gone.
func History(changes int) Option { return func(s *settings) { s.history = changes } }

// Logger is told what the parts log. Without this option their warnings are the test's
// output.
func Logger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// InBubble is for a test inside a testing/synctest bubble: the cluster has no socket, and
// clients must be made of [Cluster.Config], which connects them by pipes. Do not mix it
// with Speed: the bubble's time takes none already. (The clock can be moved all the same.)
func InBubble() Option { return func(s *settings) { s.bubble = true } }

func (s settings) names() []string {
	names := make([]string, s.nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	return names
}

// complete is the cluster that the settings describe.
func (s settings) complete(t testing.TB) (inprocess.Config, error) {
	cfg := inprocess.Config{Boot: boot, Log: s.log}
	cfg.Controllers.Select, cfg.APIServer.Keep = s.controllers, s.history
	if s.nodes < 1 || s.nodes > mostNodes {
		return cfg, fmt.Errorf("Nodes(%d): want 1 to %d", s.nodes, mostNodes)
	}
	var err error
	if cfg.Compat, err = proto.CompatFor(s.release); err != nil {
		return cfg, fmt.Errorf("Compat: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = logger(t)
	}
	cfg.Nodes, cfg.Dir = s.names(), t.TempDir()
	return cfg, nil
}

// openDoor is where clients come in.
func (s settings) openDoor(ctx context.Context) (*door, error) {
	if s.bubble {
		return openPipes(), nil
	}
	return openPort(ctx)
}
