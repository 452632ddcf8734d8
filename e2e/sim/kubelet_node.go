package sim

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/kubelet/node"
)

// nodeHealth implements node.Health. A simulated node never runs short.
type nodeHealth struct{ k *kubeletProcess }

func (h nodeHealth) Problems() []string {
	return h.k.runtime.views.Problems(h.k.begun.now, h.k.of.timing.Relist)
}

func (nodeHealth) Pressures() []corev1.NodeConditionType { return nil }

// newNode returns the product's Node, which runs as tasks of the process.
func (k *kubeletProcess) newNode() *node.Node {
	return node.New(node.Config{
		API: apiClient{k}, Driver: node.Driver{Clock: taskClock{k}, Tasks: k.tasks}, Timing: k.of.timing.Node,
		Name: k.of.node, Labels: map[string]string{corev1.LabelHostname: k.of.node}, Capacity: kubelet.DefaultCapacity(),
		Boot: k.begun.boot, Health: nodeHealth{k}, Volumes: k.devices, Nodes: k.of.kinds.nodes, Leases: k.of.kinds.leases,
		Log: slog.New(slog.DiscardHandler),
	})
}

// speak registers the node, and then speaks for it.
func (k *kubeletProcess) speak(ctx context.Context) error {
	if err := (taskClock{k}).Sleep(ctx, firstRelist); err != nil {
		return err
	}
	speaker := k.newNode()
	if err := speaker.Register(ctx); err != nil {
		return err
	}
	return speaker.Run(ctx)
}
