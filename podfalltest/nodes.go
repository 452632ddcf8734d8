package podfalltest

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// nodePollInterval is the wall time between two checks of the nodes.
const nodePollInterval = 5 * time.Millisecond

// awaitNodes waits until the API shows all nodes as Ready. If a runtime answers slowly, a kubelet
// accepts pods before its node is Ready.
func (c *Cluster) awaitNodes() error {
	ctx, cancel := c.bounded()
	defer cancel()
	conn, err := bus.Dial(ctx, bus.Config{Identity: proto.Admin, InProcess: c.parts.Hub})
	if err != nil {
		return err
	}
	defer conn.Close()
	api := podapi.New(conn, podapi.Config{Clock: c.clock})
	nodes, _ := kinds.ByResource("nodes")
	for {
		list, err := api.List(ctx, podapi.Target{Kind: nodes}, metav1.ListOptions{})
		if err != nil {
			return err
		}
		late := slices.IndexFunc(list.Items, func(node kinds.Object) bool { return !isReady(node) })
		if late < 0 {
			return nil
		}
		if err := (clock.Clock{}).Sleep(ctx, nodePollInterval); err != nil {
			return fmt.Errorf("%s is not Ready: %w", list.Items[late].GetName(), context.Cause(ctx))
		}
	}
}

// isReady reports whether a node is Ready.
func isReady(obj kinds.Object) bool {
	node, ok := obj.(*corev1.Node)
	return ok && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
