package sim

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/daemonset"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// daemonState is the state of the DaemonSet controller.
type daemonState struct {
	sets     *copyOf[*appsv1.DaemonSet]
	expected *workload.Expectations
	failures *daemonset.FailureBackoff
}

const (
	daemonController = "daemonset-controller"
	lookDaemonSet    = "daemonset"
)

func (c *controllers) newDaemons() daemonState {
	return daemonState{sets: newCopy(c.daemonSetChanged), expected: workload.NewExpectations(), failures: daemonset.NewFailureBackoff()}
}

func (c *controllers) daemonSetChanged(old, now *appsv1.DaemonSet) {
	if now == nil {
		c.ofDaemonSets().OwnerDeleted(old)
		return
	}
	c.ofDaemonSets().OwnerChanged(now)
}

// daemonNodeChanged has all sets looked at when there is another node to choose from.
func (c *controllers) daemonNodeChanged(old, now *corev1.Node) {
	if !daemonset.AffectsPlacement(old, now) {
		return
	}
	for _, set := range c.daemons.sets.all() {
		c.enqueue(lookDaemonSet, nameOf(set))
	}
}

func (c *controllers) syncDaemonSet(key string, of name) {
	set, known := c.daemons.sets.get(of)
	if !known {
		c.daemons.expected.Forget(view.Key(of))
		return
	}
	if set.DeletionTimestamp != nil {
		return
	}
	v := daemonset.View{
		Set: set, Hash: workload.TemplateHash(&set.Spec.Template, nil), Stale: c.isStale(lookDaemonSet, c.daemons.expected, set),
		FailedPodDelay: func(node string) time.Duration { return c.daemons.failures.Remaining(set.UID, node, c.now) },
	}
	done := c.start(key)
	c.claim(claimsOfDaemonSet(set), func(pods []*corev1.Pod, err error) {
		if err != nil {
			done(err)
			return
		}
		v.Nodes, v.Pods = c.nodes.all(), pods
		c.keepDaemons(v, done)
	})
}

// keepDaemons does what a set needs of which this is known.
func (c *controllers) keepDaemons(v daemonset.View, done func(error)) {
	set, plan := v.Set, daemonset.Decide(v, c.clockTime())
	for _, node := range plan.Failed {
		c.daemons.failures.Increase(set.UID, node, c.now)
	}
	if plan.RequeueAfter > 0 {
		c.enqueueAfter(lookDaemonSet, nameOf(set), plan.RequeueAfter)
	}
	create := make([]*corev1.Pod, 0, len(plan.Create))
	for _, node := range plan.Create {
		create = append(create, daemonset.NewPod(set, node, v.Hash))
	}
	by := podOwner{controller: daemonController, expected: c.daemons.expected, owner: set}
	c.createAndDelete(by, create, plan.Delete, func(_ int, failed error) {
		if kinds.Equal(set.Status, plan.Status) {
			done(failed)
			return
		}
		changed := set.DeepCopy()
		changed.Status = plan.Status
		c.write(by.controller, updateOf("daemonsets.apps", changed, "status"), set, func(got Outcome) {
			if failed == nil {
				failed = got.Err
			}
			done(failed)
		})
	})
}
