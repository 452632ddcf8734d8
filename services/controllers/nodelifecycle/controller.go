package nodelifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

const workers = 8

// leaseNamespace is the namespace of the nodes' leases.
const leaseNamespace = "kube-node-lease"

// Controller monitors the nodes.
type Controller struct {
	api      control.API
	clock    clock.Clock
	recorder control.Recorder
	log      *slog.Logger
	copies   copies
	client   control.Resource[*corev1.Node]
	queues
	zones   *Zones
	timing  Timing
	metrics lifecycleMetrics
	// retryPods are nodes with pods that could not be marked as not ready.
	retryPods map[string]bool
	ledger
}

// queues hold nodes whose conditions may need other NoSchedule taints, and pods that were just
// bound to a node.
type queues struct{ changed, bound *loop.Loop[view.Key] }

// ledger is the health of each node; nil until its first check.
type ledger struct {
	mu     sync.Mutex
	health map[string]*Health
}

// copies are the controller's views.
type copies struct {
	nodes  *view.Copy[*corev1.Node]
	pods   *view.Copy[*corev1.Pod]
	leases *view.Copy[*coordinationv1.Lease]
}

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	c := &Controller{
		api: base.API, clock: base.Clock, recorder: base.Events("node-controller"), log: base.Log,
		copies: copies{
			nodes:  view.Of[*corev1.Node](base.Views, "nodes"),
			pods:   view.Of[*corev1.Pod](base.Views, "pods"),
			leases: view.Of[*coordinationv1.Lease](base.Views, "leases.coordination.k8s.io"),
		},
		client: control.Of[*corev1.Node](base.API, "nodes"),
		zones:  NewZones(), timing: Default(), metrics: newCounts(base.Metrics), retryPods: map[string]bool{}, ledger: ledger{health: map[string]*Health{}},
	}
	if grace := base.Compat.NodeMonitorGrace; grace > 0 {
		c.timing.Grace = grace
	}
	view.IndexByNode(c.copies.pods)
	config := loop.Config{Name: "node_lifecycle_controller", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}
	c.changed = loop.New(config, c.syncNoSchedule)
	config.Name = "node_lifecycle_controller_pods"
	c.bound = loop.New(config, c.syncBoundPod)
	c.copies.nodes.OnChange(func(_, now *corev1.Node) {
		if now != nil {
			c.changed.Add(view.KeyOf(now))
		}
	})
	c.copies.pods.OnChange(func(old, now *corev1.Pod) {
		if now != nil && now.Spec.NodeName != "" && (old == nil || old.Spec.NodeName != now.Spec.NodeName) {
			c.bound.Add(view.KeyOf(now))
		}
	})
	return c
}

// Run monitors the nodes until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return daemon.Run(ctx, c.changed.Run, c.bound.Run, c.monitor)
}

// monitor checks all nodes every 5 s. In between it taints nodes at the rate of their zone.
func (c *Controller) monitor(ctx context.Context) error {
	ticker := c.clock.Ticker(c.timing.Period)
	defer ticker.Stop()
	for {
		c.checkAll(ctx)
		for waiting := true; waiting; {
			turn := c.clock.Timer(c.untilNextEviction())
			select {
			case <-ctx.Done():
				turn.Stop()
				return ctx.Err()
			case <-ticker.C:
				waiting = false
			case <-turn.C:
				c.taintDue(ctx)
			}
			turn.Stop()
		}
	}
}

func (c *Controller) untilNextEviction() time.Duration {
	next := c.zones.NextDue()
	if next.IsZero() {
		return time.Hour
	}
	return max(next.Sub(c.clock.Steady()), 0)
}

// checkAll checks every node once (monitorNodeHealth).
func (c *Controller) checkAll(ctx context.Context) {
	began, nodes := clock.Clock{}.Now(), c.copies.nodes.All()
	c.recordNodes(nodes)
	census := map[string]Census{}
	for _, node := range nodes {
		node, finding, err := c.checkNode(ctx, node)
		if err != nil {
			c.log.WarnContext(ctx, "could not say that a node is silent", "node", node.Name, "error", err)
			continue
		}
		if !Excluded(node) {
			one := census[Zone(node)]
			if finding.Current == corev1.ConditionTrue {
				one.Ready++
			} else {
				one.NotReady++
			}
			census[Zone(node)] = one
		}
		if condition(node.Status.Conditions, corev1.NodeReady) != nil {
			c.processTaints(ctx, node, finding)
		}
	}
	c.metrics.setZones(census)
	c.metrics.observeCheck(began)
	change := c.zones.Update(census)
	if change.ClearTaints {
		for _, node := range nodes {
			c.zones.Remove(node.Name)
			c.taint(ctx, node.Name, func(n *corev1.Node) ([]corev1.Taint, bool) {
				return NoExecuteTaints(n, corev1.ConditionTrue, c.clock.Now())
			})
		}
	}
	if change.ResetProbes {
		c.resetProbes()
	}
	c.taintDue(ctx)
}

// recordNodes records new and deleted nodes, with an event for each.
func (c *Controller) recordNodes(nodes []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := map[string]bool{}
	for _, node := range nodes {
		there[node.Name] = true
		if _, known := c.health[node.Name]; !known {
			c.health[node.Name] = nil
			c.recorder.Event(node, corev1.EventTypeNormal, "RegisteredNode",
				"Node "+node.Name+" event: Registered Node "+node.Name+" in Controller")
		}
	}
	for name := range c.health {
		if !there[name] {
			delete(c.health, name)
			c.zones.Remove(name)
			c.recorder.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, corev1.EventTypeNormal, "RemovingNode",
				"Node "+name+" event: Removing Node "+name+" from Controller")
		}
	}
}

// checkNode checks one node, and writes its conditions if it is silent.
func (c *Controller) checkNode(ctx context.Context, node *corev1.Node) (*corev1.Node, Finding, error) {
	for attempt := 0; ; attempt++ {
		finding := CheckHealth(c.healthOf(node.Name), node, c.leaseRenewTime(node.Name), Instant{c.clock.Steady(), c.clock.Now()}, c.timing)
		if finding.Conditions == nil {
			c.setHealth(node.Name, &finding.Health)
			return node, finding, nil
		}
		updated := node.DeepCopy()
		updated.Status.Conditions = finding.Conditions
		stored, err := c.client.UpdateStatus(ctx, updated)
		if err == nil {
			c.setHealth(node.Name, &finding.Health)
			return stored, finding, nil
		}
		if attempt == 4 {
			return node, finding, err
		}
		latest, err := c.client.Get(ctx, "", node.Name)
		if err != nil {
			return node, finding, err
		}
		node = latest
	}
}

func (c *Controller) leaseRenewTime(node string) time.Time {
	lease, found := c.copies.leases.Get(view.Key{Namespace: leaseNamespace, Name: node})
	if !found || lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

func (c *Controller) healthOf(node string) *Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health[node]
}

func (c *Controller) setHealth(node string, health *Health) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health[node] = health
}

// resetProbes counts the silence of every node from now.
func (c *Controller) resetProbes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, health := range c.health {
		if health != nil {
			renewed := *health
			renewed.Probe = c.clock.Steady()
			c.health[name] = &renewed
		}
	}
}

// processTaints queues a node for its NoExecute taint or removes the taint, by the status before
// this check (processTaintBaseEviction). It marks the pods of a node that is not ready.
func (c *Controller) processTaints(ctx context.Context, node *corev1.Node, finding Finding) {
	evicting := func(n *corev1.Node) ([]corev1.Taint, bool) {
		return NoExecuteTaints(n, finding.Observed, c.clock.Now())
	}
	switch {
	case finding.Observed == corev1.ConditionTrue:
		c.zones.Remove(node.Name)
		c.taintIf(ctx, node, evicting)
	case HasNoExecuteTaint(node):
		c.taintIf(ctx, node, evicting)
	default:
		c.zones.Add(Zone(node), node.Name)
	}
	switch {
	case finding.BecameNotReady():
		c.recorder.Event(node, corev1.EventTypeNormal, "NodeNotReady", "Node "+node.Name+" status is now: NodeNotReady")
	case !c.retryPods[node.Name] || finding.Observed == corev1.ConditionTrue:
		delete(c.retryPods, node.Name)
		return
	}
	delete(c.retryPods, node.Name)
	if err := c.markNotReady(ctx, view.BoundTo(c.copies.pods, node.Name)); err != nil {
		c.log.WarnContext(ctx, "could not mark all pods not ready", "node", node.Name, "error", err)
		c.retryPods[node.Name] = true
	}
}

// taintDue taints the nodes that are due, if they are still not ready (doNoExecuteTaintingPass).
func (c *Controller) taintDue(ctx context.Context) {
	for _, name := range c.zones.TakeDue(c.clock.Steady()) {
		c.taint(ctx, name, func(node *corev1.Node) ([]corev1.Taint, bool) {
			ready := condition(node.Status.Conditions, corev1.NodeReady)
			if ready == nil || ready.Status == corev1.ConditionTrue {
				return nil, false
			}
			taints, changed := NoExecuteTaints(node, ready.Status, c.clock.Now())
			if changed {
				c.metrics.evictions.Add(1, Zone(node))
			}
			return taints, changed
		})
	}
}

// syncNoSchedule sets the NoSchedule taints that a node's conditions ask for.
func (c *Controller) syncNoSchedule(ctx context.Context, key view.Key) error {
	node, found := c.copies.nodes.Get(key)
	if !found {
		return nil
	}
	wanted := func(n *corev1.Node) ([]corev1.Taint, bool) { return NoScheduleTaints(n, c.clock.Now()) }
	if _, changed := wanted(node); !changed {
		return nil
	}
	return c.updateTaints(ctx, key.Name, wanted)
}

func (c *Controller) taintIf(ctx context.Context, node *corev1.Node, wanted func(*corev1.Node) ([]corev1.Taint, bool)) {
	if _, changed := wanted(node); changed {
		c.taint(ctx, node.Name, wanted)
	}
}

func (c *Controller) taint(ctx context.Context, node string, wanted func(*corev1.Node) ([]corev1.Taint, bool)) {
	if err := c.updateTaints(ctx, node, wanted); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "could not taint a node", "node", node, "error", err)
	}
}

// updateTaints changes the taints of a node as the API has it now. It retries after a conflict.
func (c *Controller) updateTaints(ctx context.Context, name string, wanted func(*corev1.Node) ([]corev1.Taint, bool)) error {
	var err error
	for range 5 {
		var node *corev1.Node
		if node, err = c.client.Get(ctx, "", name); apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		taints, changed := wanted(node)
		if !changed {
			return nil
		}
		var value any
		if len(taints) > 0 {
			value = taints
		}
		_, err = c.client.PatchMerge(ctx, node, map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": value},
		})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// syncBoundPod marks a pod as not ready if it was bound to a node that is not ready (processPod).
func (c *Controller) syncBoundPod(ctx context.Context, key view.Key) error {
	pod, found := c.copies.pods.Get(key)
	if !found {
		return nil
	}
	health := c.healthOf(pod.Spec.NodeName)
	if health == nil || health.Ready == nil || health.Ready.Status == corev1.ConditionTrue {
		return nil
	}
	return c.markNotReady(ctx, []*corev1.Pod{pod})
}

// markNotReady sets the pods' condition Ready to false (CTL-02).
func (c *Controller) markNotReady(ctx context.Context, pods []*corev1.Pod) error {
	var failed []error
	for _, pod := range pods {
		wanted := NotReadyCondition(pod)
		if wanted == nil {
			continue
		}
		patch, err := podcondition.Patch(pod, "", wanted, c.clock.Now())
		if err == nil {
			target := podapi.Target{Kind: c.copies.pods.Kind(), Namespace: pod.Namespace, Name: pod.Name, Subresource: "status"}
			_, err = c.api.Patch(ctx, target, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			failed = append(failed, err)
		default:
			c.recorder.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		}
	}
	return errors.Join(failed...)
}
