package sim

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/daemonset"
	"github.com/podfall/podfall/services/controllers/workload"
)

// daemons is what is known of DaemonSets.
type daemons struct {
	sets     *copyOf[*appsv1.DaemonSet]
	expected *workload.Expectations
	failures *daemonset.Failures
}

const lookDaemonSet = "daemonset"

func (c *controllers) newDaemons() daemons {
	return daemons{
		sets:     newCopy(func(old, now *appsv1.DaemonSet) { c.look(lookDaemonSet, nameOf(either(old, now))) }),
		expected: workload.NewExpectations(), failures: daemonset.NewFailures(),
	}
}

// daemonNodeChanged has all sets looked at when there is another node to choose from.
func (c *controllers) daemonNodeChanged(old, now *corev1.Node) {
	if !daemonset.Another(old, now) {
		return
	}
	for _, set := range c.daemons.sets.all() {
		c.look(lookDaemonSet, nameOf(set))
	}
}

// daemonPodChanged has the set of a pod looked at.
func (c *controllers) daemonPodChanged(of name, old, now *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(either(old, now))
	if set, known := c.daemons.sets.get(of); known && set.UID != owner.UID {
		return
	}
	noticed(c.daemons.expected, of, old, now)
	c.look(lookDaemonSet, of)
}

// noticed takes what was expected of a pod of an owner off the ledger.
func noticed(expected *workload.Expectations, of name, old, now *corev1.Pod) {
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	if old == nil {
		expected.Created(key)
	}
	if now == nil || now.DeletionTimestamp != nil {
		expected.Deleted(key, either(old, now).UID)
	}
}

func (c *controllers) syncDaemonSet(key string, of name) {
	set, known := c.daemons.sets.get(of)
	if !known {
		c.daemons.expected.Forget(types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
		return
	}
	hash := workload.TemplateHash(&set.Spec.Template, nil)
	plan := daemonset.Decide(daemonset.View{
		Set: set, Nodes: c.nodes.all(), Pods: c.owned(set), Hash: hash, Stale: c.stale(lookDaemonSet, c.daemons.expected, set),
		Hold: func(node string) time.Duration { return c.daemons.failures.Hold(set.UID, node, c.now) },
	}, c.now)
	done := c.begun(key)
	for _, node := range plan.Failed {
		c.daemons.failures.More(set.UID, node, c.now)
	}
	if plan.Again > 0 {
		c.lookAfter(lookDaemonSet, of, plan.Again)
	}
	create := make([]*corev1.Pod, 0, len(plan.Create))
	for _, node := range plan.Create {
		create = append(create, daemonset.PodFor(set, node, hash))
	}
	by := maker{controller: "daemonset-controller", expected: c.daemons.expected, owner: set}
	c.act(by, create, plan.Delete, func(_ int, failed error) {
		if equality.Semantic.DeepEqual(set.Status, plan.Status) {
			done(failed)
			return
		}
		changed := set.DeepCopy()
		changed.Status = plan.Status
		c.write(by.controller, Ask{Verb: proto.VerbUpdate, Target: targetOf("daemonsets.apps", set, "status"), Object: changed}, set, func(got Got) {
			if failed == nil {
				failed = got.Err
			}
			done(failed)
		})
	})
}
