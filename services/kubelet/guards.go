package kubelet

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/eviction"
	"github.com/podfall/podfall/services/kubelet/node"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/shutdown"
)

// guards are what speaks for the node, and what ends pods for its sake.
type guards struct {
	node    *node.Node
	evictor *eviction.Manager
	leaving *shutdown.Manager
}

// The times that a node takes to go down, unless it is told others.
const (
	shutdownGrace         = 30 * time.Second
	shutdownGraceCritical = 10 * time.Second
)

func (p *parts) openGuards() guards {
	cfg := p.cfg
	limits := cfg.Machine.Eviction
	if limits.Thresholds == nil {
		limits.Thresholds = eviction.Thresholds()
	}
	total, critical := cmp.Or(cfg.Machine.ShutdownGrace, shutdownGrace), cmp.Or(cfg.Machine.ShutdownGraceCritical, shutdownGraceCritical)
	return guards{
		node: node.New(node.Config{
			API: p.api, Driver: node.Driver{Clock: cfg.Clock}, Timing: cfg.Timing.Node, Name: cfg.Node, Labels: p.labels(), Capacity: p.capacity,
			Boot: cfg.Boot, Health: p, Volumes: p.volumes, Nodes: p.kinds.nodes, Leases: p.kinds.leases, Log: cfg.Log,
		}),
		evictor: eviction.New(eviction.Parts{
			Config: eviction.Config{Limits: limits, Timing: cfg.Timing.Eviction}, Node: p, Name: cfg.Node, Capacity: p.capacity,
			Faults: cfg.Machine.Faults, Events: p.recorder, Clock: cfg.Clock, Log: cfg.Log,
		}),
		leaving: shutdown.New(shutdown.Config{
			Node: p, Levels: shutdown.Levels(total, critical), Period: cfg.Timing.Loop.Tick,
			Faults: cfg.Machine.Faults, Clock: cfg.Clock, Log: cfg.Log,
		}),
	}
}

// Problems implements node.Health.
func (p *parts) Problems() []string {
	problems := p.relister.Problems()
	if p.leaving.Going() {
		problems = append(slices.Clip(problems), "node is shutting down")
	}
	return problems
}

// Pressures implements node.Health.
func (p *parts) Pressures() []corev1.NodeConditionType { return p.evictor.Pressures() }

// Changed implements eviction.Node and shutdown.Node.
func (p *parts) Changed() { p.node.Hurry() }

// Active implements eviction.Node and shutdown.Node. What is being ended for the node's sake
// already is left out.
func (p *parts) Active() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, v := range p.workers.All() {
		if v.State < podworker.Stopped && v.Pod != nil && v.Cause == nil {
			pods = append(pods, v.Pod)
		}
	}
	return pods
}

// Gone implements eviction.Node.
func (p *parts) Gone(uid types.UID) bool {
	v, known := p.workers.Get(uid)
	return !known || v.State >= podworker.Confirming
}

// Evict implements eviction.Node.
func (p *parts) Evict(ctx context.Context, pod *corev1.Pod, grace int64, message string) error {
	return p.workers.Kill(ctx, pod.UID, podworker.Kill{
		Grace: &grace, Cause: &podworker.Cause{Reason: "Evicted", Message: message, Disrupts: true},
	})
}

// Leave implements shutdown.Node.
func (p *parts) Leave(ctx context.Context, pod *corev1.Pod, grace int64) error {
	return p.workers.Kill(ctx, pod.UID, podworker.Kill{
		Grace: &grace, Cause: &podworker.Cause{
			Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown.", Disrupts: true,
		},
	})
}

// Sizes implements eviction.Node.
func (p *parts) Sizes(pod *corev1.Pod) map[string]int64 {
	var sizes map[string]int64
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
			continue
		}
		if sizes == nil {
			sizes = map[string]int64{}
		}
		sizes[v.Name] = size(p.root.FS(), path.Join("pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", v.Name))
	}
	return sizes
}

// size is how many bytes the files of a directory hold. What cannot be read holds none.
func size(dir fs.FS, name string) int64 {
	var total int64
	_ = fs.WalkDir(dir, name, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it may have gone meanwhile
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}
