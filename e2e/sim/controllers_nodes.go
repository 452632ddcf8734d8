package sim

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/nodelifecycle"
	"github.com/podfall/podfall/services/controllers/tainteviction"
)

const nodeLeases = "kube-node-lease"

func (c *controllers) nodeChanged(old, now *corev1.Node) {
	c.daemonNodeChanged(old, now)
	c.diskNodeChanged(old, now)
	if now == nil {
		c.scheduling.RemoveNode(old.Name)
		for _, pod := range c.pods.all() {
			if pod.Spec.NodeName == old.Name {
				delete(c.evictions, nameOf(pod))
			}
		}
		return
	}
	c.scheduling.SetNode(now)
	c.out.Wake(lookSchedule, c.now)
	c.look(lookTaints, nameOf(now))
	if old == nil {
		c.watchGhosts()
	}
	var before []corev1.Taint
	if old != nil {
		before = tainteviction.NoExecuteTaints(old.Spec.Taints)
	}
	if slices.EqualFunc(before, tainteviction.NoExecuteTaints(now.Spec.Taints), func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }) {
		return
	}
	for _, pod := range c.pods.all() {
		if pod.Spec.NodeName == now.Name {
			c.look(lookEviction, nameOf(pod))
		}
	}
}

// lookAtNodes is one pass over the nodes.
func (c *controllers) lookAtNodes() {
	nodes, there := c.nodes.all(), map[string]bool{}
	census := map[string]nodelifecycle.Census{}
	for _, node := range nodes {
		there[node.Name] = true
		finding := nodelifecycle.CheckHealth(c.health[node.Name], node, c.renewed(node.Name), nodelifecycle.Instant{Steady: c.now, Shown: c.shown()}, c.timing)
		one := census[nodelifecycle.Zone(node)]
		if finding.Current == corev1.ConditionTrue {
			one.Ready++
		} else {
			one.NotReady++
		}
		census[nodelifecycle.Zone(node)] = one
		c.lookAtNode(node, finding)
	}
	for name := range c.health { // independent of each other
		if !there[name] {
			delete(c.health, name)
			c.zones.Remove(name)
		}
	}
	change := c.zones.Update(census)
	for _, node := range nodes {
		if change.ClearTaints {
			c.zones.Remove(node.Name)
			c.taint(node.Name, func(n *corev1.Node) ([]corev1.Taint, bool) {
				return nodelifecycle.NoExecuteTaints(n, corev1.ConditionTrue, c.shown())
			}, nil)
		}
		if health := c.health[node.Name]; change.ResetProbes && health != nil {
			renewed := *health
			renewed.Probe = c.now
			c.health[node.Name] = &renewed
		}
	}
	c.giveUp()
}

func (c *controllers) renewed(node string) time.Time {
	lease, found := c.leases.get(name{nodeLeases, node})
	if !found || lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// lookAtNode writes the conditions of a node that is silent, and judges it.
func (c *controllers) lookAtNode(node *corev1.Node, finding nodelifecycle.Finding) {
	if finding.Conditions == nil {
		c.health[node.Name] = &finding.Health
		c.judge(node, finding)
		return
	}
	updated := node.DeepCopy()
	updated.Status.Conditions = finding.Conditions
	c.write("node-lifecycle-controller", updating("nodes", updated, "status"), node, func(got Got) {
		stored, ok := got.Object.(*corev1.Node)
		if got.Err != nil || !ok {
			return // the next look tries again
		}
		c.health[node.Name] = &finding.Health
		c.judge(stored, finding)
	})
}

// judge queues a node for its NoExecute taint or takes that off, and tells its pods.
func (c *controllers) judge(node *corev1.Node, finding nodelifecycle.Finding) {
	if readyOf(node) == nil {
		return
	}
	evicting := func(n *corev1.Node) ([]corev1.Taint, bool) {
		return nodelifecycle.NoExecuteTaints(n, finding.Observed, c.shown())
	}
	if _, changed := evicting(node); finding.Observed == corev1.ConditionTrue {
		c.zones.Remove(node.Name)
		if changed {
			c.taint(node.Name, evicting, nil)
		}
	} else if !nodelifecycle.HasNoExecuteTaint(node) {
		c.zones.Add(nodelifecycle.Zone(node), node.Name)
	} else if changed {
		c.taint(node.Name, evicting, nil)
	}
	if !finding.BecameNotReady() {
		return
	}
	for _, pod := range c.pods.all() {
		if wanted := nodelifecycle.NotReadyCondition(pod); pod.Spec.NodeName == node.Name && wanted != nil {
			c.patchPod("node-lifecycle-controller", pod, "", wanted, func(error) {})
		}
	}
}

func readyOf(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// giveUp taints the nodes whose turn it is, if they are still not ready.
func (c *controllers) giveUp() {
	for _, name := range c.zones.TakeDue(c.now) {
		c.taint(name, func(node *corev1.Node) ([]corev1.Taint, bool) {
			ready := readyOf(node)
			if ready == nil || ready.Status == corev1.ConditionTrue {
				return nil, false
			}
			return nodelifecycle.NoExecuteTaints(node, ready.Status, c.shown())
		}, nil)
	}
	if next := c.zones.NextDue(); !next.IsZero() {
		c.out.Wake(lookTurn, next)
	}
}

// syncTaints gives a node the NoSchedule taints that its conditions ask for.
func (c *controllers) syncTaints(key, node string) {
	known, found := c.nodes.get(name{"", node})
	if !found {
		return
	}
	wanted := func(n *corev1.Node) ([]corev1.Taint, bool) { return nodelifecycle.NoScheduleTaints(n, c.shown()) }
	if _, changed := wanted(known); changed {
		c.taint(node, wanted, c.begun(key))
	}
}

// taint changes the taints of a node as it is now; then may be nil.
func (c *controllers) taint(node string, wanted func(*corev1.Node) ([]corev1.Taint, bool), then func(error)) {
	if then == nil {
		then = func(error) {}
	}
	target := targetOf("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, "")
	c.write("node-lifecycle-controller", Ask{Verb: proto.VerbGet, Target: target}, nil, func(got Got) {
		fresh, ok := got.Object.(*corev1.Node)
		if got.Err != nil || !ok {
			if apierrors.IsNotFound(got.Err) {
				got.Err = nil
			}
			then(got.Err)
			return
		}
		taints, changed := wanted(fresh)
		if !changed {
			then(nil)
			return
		}
		var value any
		if len(taints) > 0 {
			value = taints
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": fresh.ResourceVersion}, "spec": map[string]any{"taints": value},
		})
		if err != nil {
			then(err)
			return
		}
		c.write("node-lifecycle-controller", Ask{Verb: proto.VerbPatch, Target: target, PatchType: types.MergePatchType, Patch: patch}, fresh, func(got Got) {
			if apierrors.IsConflict(got.Err) {
				c.taint(node, wanted, then)
				return
			}
			then(got.Err)
		})
	})
}
