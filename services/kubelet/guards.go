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

// guards report the state of the node, and end pods for the node's sake.
type guards struct {
	node     *node.Node
	evictor  *eviction.Manager
	shutdown *shutdown.Manager
}

// The default times for a node's shutdown.
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
			API: p.api, Driver: node.Driver{Clock: cfg.Clock}, Timing: cfg.Timing.Node, Name: cfg.Node, Labels: p.nodeLabels(), Capacity: p.capacity,
			Boot: cfg.Boot, Health: p, Volumes: p.volumes, Nodes: p.kinds.nodes, Leases: p.kinds.leases, Log: cfg.Log,
		}),
		evictor: eviction.New(eviction.Parts{
			Config: eviction.Config{Limits: limits, Timing: cfg.Timing.Eviction}, Node: p, Name: cfg.Node, Capacity: p.capacity,
			Faults: cfg.Machine.Faults, Events: p.recorder, Clock: cfg.Clock, Log: cfg.Log,
		}),
		shutdown: shutdown.New(shutdown.Config{
			Node: p, Levels: shutdown.Levels(total, critical), Period: cfg.Timing.Loop.Tick,
			Faults: cfg.Machine.Faults, Clock: cfg.Clock, Log: cfg.Log,
		}),
	}
}

// Problems implements node.Health.
func (p *parts) Problems() []string {
	problems := p.relister.Problems()
	if p.shutdown.IsShuttingDown() {
		problems = append(slices.Clip(problems), "node is shutting down")
	}
	return problems
}

// Pressures implements node.Health.
func (p *parts) Pressures() []corev1.NodeConditionType { return p.evictor.Pressures() }

// NodeChanged implements eviction.Node and shutdown.Node.
func (p *parts) NodeChanged() { p.node.ReportNow() }

// ActivePods implements eviction.Node and shutdown.Node. Pods that the node is already ending are
// left out.
func (p *parts) ActivePods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, v := range p.workers.All() {
		if v.State < podworker.Stopped && v.Pod != nil && v.Cause == nil {
			pods = append(pods, v.Pod)
		}
	}
	return pods
}

// IsGone implements eviction.Node.
func (p *parts) IsGone(uid types.UID) bool {
	v, known := p.workers.Get(uid)
	return !known || v.State >= podworker.Confirming
}

// Evict implements eviction.Node.
func (p *parts) Evict(ctx context.Context, pod *corev1.Pod, grace int64, message string) error {
	return p.workers.Kill(ctx, pod.UID, podworker.Kill{
		Grace: &grace, Cause: &podworker.Cause{Reason: "Evicted", Message: message, Disrupts: true},
	})
}

// EndPod implements shutdown.Node.
func (p *parts) EndPod(ctx context.Context, pod *corev1.Pod, grace int64) error {
	return p.workers.Kill(ctx, pod.UID, podworker.Kill{
		Grace: &grace, Cause: &podworker.Cause{
			Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown.", Disrupts: true,
		},
	})
}

// EmptyDirSizes implements eviction.Node.
func (p *parts) EmptyDirSizes(pod *corev1.Pod) map[string]int64 {
	var sizes map[string]int64
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
			continue
		}
		if sizes == nil {
			sizes = map[string]int64{}
		}
		sizes[v.Name] = dirSize(p.root.FS(), path.Join("pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", v.Name))
	}
	return sizes
}

// dirSize returns the bytes in a directory's files. Unreadable files count as empty.
func dirSize(dir fs.FS, name string) int64 {
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
